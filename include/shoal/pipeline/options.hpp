// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "shoal/pipeline/schedule.hpp"

namespace shoal::pipeline {

/// pipeline.checkpoint: the turns whose activations are computed again in the backward pass. never: all are kept;
/// except_last: only those of the last turn; always: none. The same names as FairScale's Pipe.
enum class Checkpoint : std::uint8_t { never, except_last, always };
inline constexpr std::array checkpoint_names = {
    Named{Checkpoint::never, "never"}, Named{Checkpoint::except_last, "except_last"}, Named{Checkpoint::always, "always"}};
constexpr const auto& table_of(Checkpoint) { return checkpoint_names; }

struct PipelineOptions {
  int size = 1;  ///< stages
  Schedule schedule = Schedule::one_f_one_b;
  int parts = 1;                 ///< per stage
  std::string balance = "auto";  ///< or the number of blocks of each part (balance.hpp)
  Checkpoint checkpoint = Checkpoint::never;
};

}  // namespace shoal::pipeline
