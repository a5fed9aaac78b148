// SPDX-License-Identifier: Apache-2.0
#include "app/train/micro_batches.hpp"

#include "app/setup/pipeline_setup.hpp"
#include "shoal/base/trace.hpp"

namespace shoal::app {

MicroBatches::MicroBatches(const ResolvedRun& resolved, const sync::NodeGroups& groups, zero::Engine& engine)
    : options_(resolved.options),
      groups_(groups),
      engine_(engine),
      order_(resolved.dataset.train->count(), options_.batch.global, options_.data.shuffle, options_.data.drop_last,
             options_.train.seed),
      loader_(*resolved.dataset.train, order_, options_.batch.micro, options_.model.block_size) {}

std::size_t MicroBatches::index_in_node(std::size_t turn) const {
  return engine_.accumulation().micro_batch_of_turn(turn, groups_.node.rank);
}

std::size_t MicroBatches::index_in_step(std::size_t turn) const {
  return static_cast<std::size_t>(groups_.across.rank) * engine_.accumulation().micro_batches() + index_in_node(turn);
}

/// A part in the middle of the model needs no tokens.
void MicroBatches::forward(int part, std::size_t turn, const pipeline::Borders& borders) {
  const std::size_t m = index_in_step(turn);
  model::MicroBatch batch = {options_.batch.micro,
                             options_.model.block_size,
                             {},
                             {},
                             static_cast<std::uint32_t>(step_),
                             static_cast<std::uint32_t>(m * options_.batch.micro)};
  if (borders.in.empty() || borders.out.empty()) load(m, batch);
  engine_.forward(static_cast<std::size_t>(part), turn, batch, flow_of(borders), keeps_activations(options_, turn, turns()));
}

void MicroBatches::backward(int part, std::size_t turn, const pipeline::Borders& borders) {
  engine_.backward(static_cast<std::size_t>(part), turn, flow_of(borders));
}

/// Gives the batch the tokens of the step's micro-batch m.
void MicroBatches::load(std::size_t m, model::MicroBatch& batch) {
  const trace::Region region(trace::Level::steps, trace::Kind::phase, "data");
  const data::Loader::Batch loaded = loader_.micro_batch(static_cast<std::uint64_t>(step_), m);
  batch.inputs = loaded.inputs;
  batch.targets = loaded.targets;
}

}  // namespace shoal::app
