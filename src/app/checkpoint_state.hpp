// SPDX-License-Identifier: Apache-2.0
// What a run's checkpoint holds: which tensors, and what is said beside them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "setup.hpp"
#include "shoal/io/checkpoint.hpp"

namespace shoal::app {

/// Options that the rest of the trajectory depends on, by name: kept as text beside the tensors.
std::map<std::string, std::string> shaping_options(const config::Options& options);

/// A text beside the tensors: how quantized gradients were cut when their residuals were written; absent where there are
/// none.
inline constexpr const char* residuals_text = "zero/residuals";

/// Parameters and moments of this rank: its shards, or all that it keeps.
std::vector<NamedSlice> model_slices(zero::Engine& engine, zero::States::Which which);
/// The same and residuals, if ranks are always in step: for the memory that a copy of them takes.
std::vector<NamedSlice> slices_to_copy(zero::Engine& engine);

/// What a checkpoint after so many steps holds.
struct CheckpointContents {
  io::CheckpointState state;
  std::vector<NamedSlice> slices;  ///< every element is listed by one rank
};
/// numbers: further state, by name.
CheckpointContents contents_to_write(const config::Options& options, Machine& machine, std::int64_t steps,
                                     const std::map<std::string, double>& numbers);

}  // namespace shoal::app
