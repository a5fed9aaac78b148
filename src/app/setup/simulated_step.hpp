// SPDX-License-Identifier: Apache-2.0
// How long a step of a pipeline takes with another balance, simulated: to find a good one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shoal/config/options.hpp"
#include "shoal/model/costs.hpp"
#include "shoal/pipeline/balance.hpp"
#include "shoal/pipeline/buffers.hpp"
#include "shoal/pipeline/timeline.hpp"

namespace shoal::app {

/// The lists of all stages in simulated time (pipeline::timeline()), with the buffers of a run. A part takes its operations
/// (model::costs()), and messages take no time. A step of many turns is simulated with fewer.
class SimulatedStep {
 public:
  /// options: resolved, of a run that trains. turns: micro-batches of a pipeline in a step.
  SimulatedStep(const config::Options& options, std::size_t turns);

  /// The time of a step, in operations of one sequence.
  double operator()(const pipeline::Balance& balance) const;
  /// So many steps are simulated in a fraction of a second.
  std::size_t most_calls() const;

 private:
  std::size_t actions() const;

  std::vector<model::UnitCost> costs_;
  std::size_t layers_;
  std::int64_t interval_;
  double recomputed_ = 0;  // share of the turns that keep the inputs of segments alone
  pipeline::ScheduleShape shape_;
  pipeline::Lists lists_;
  std::vector<pipeline::Buffers> buffers_;
};

}  // namespace shoal::app
