// SPDX-License-Identifier: Apache-2.0
#include "app/setup/simulated_step.hpp"

#include <algorithm>

#include "app/setup/pipeline_setup.hpp"
#include "shoal/model/segment_length.hpp"

namespace shoal::app {

namespace {

constexpr std::size_t most_actions = 4096;              // of one simulation, if that leaves at least two groups of turns
constexpr std::size_t most_actions_of_all = 1U << 20U;  // of all simulations together

/// A multiple of the number of stages if `turns` is one.
std::size_t simulated_turns(const pipeline::ScheduleShape& shape) {
  const auto stages = static_cast<std::size_t>(shape.stages), parts = static_cast<std::size_t>(shape.parts);
  const std::size_t groups = std::max<std::size_t>(2, most_actions / (2 * stages * stages * parts));
  return std::min(shape.turns, groups * stages);
}

}  // namespace

SimulatedStep::SimulatedStep(const config::Options& options, std::size_t turns)
    : costs_(model::costs(options.model, options.train.dtype, {})),
      layers_(options.model.n_layer),
      interval_(options.activation.checkpoint_interval) {
  for (std::size_t turn = 0; turn < turns; ++turn) {
    if (!keeps_activations(options, turn, turns)) recomputed_ += 1 / static_cast<double>(turns);
  }
  shape_ = {.stages = options.pipeline.size,
            .stage = 0,
            .parts = options.pipeline.parts,
            .turns = turns,
            .skip = options.model.has_skip_connection()};
  shape_.turns = simulated_turns(shape_);
  lists_ = pipeline::lists_of(options.pipeline.schedule, shape_);
  buffers_ = pipeline::buffers_of(lists_, shape_);
}

double SimulatedStep::operator()(const pipeline::Balance& balance) const {
  pipeline::TimelineCosts costs;
  std::vector<Range> units = pipeline::units_of(balance);
  units.back().end = costs_.size();  // the head may be several units
  for (const Range& part : units) {
    pipeline::PassTimes times{0, 0};
    for (std::size_t u = part.begin; u < part.end; ++u) {
      const model::UnitCost& unit = costs_[u];
      // The head's backward pass follows its forward pass at once, and nothing of it is computed again.
      const bool head = u > layers_;
      times.forward += head ? unit.flops() : unit.forward_flops;
      times.backward += head ? 0 : unit.backward_flops;
    }
    const Range layers{std::max<std::size_t>(part.begin, 1), std::min(part.end, layers_ + 1)};
    times.backward += recomputed_ * model::repeated_flops(costs_, layers, interval_, false) +
                      (1 - recomputed_) * model::repeated_flops(costs_, layers, interval_, true);
    costs.parts.push_back(times);
  }
  return pipeline::timeline(lists_, shape_, costs, &buffers_).step;
}

std::size_t SimulatedStep::actions() const {
  std::size_t count = 0;
  for (const auto& list : lists_) count += list.size();
  return count;
}

std::size_t SimulatedStep::most_calls() const { return most_actions_of_all / std::max<std::size_t>(actions(), 1); }

}  // namespace shoal::app
