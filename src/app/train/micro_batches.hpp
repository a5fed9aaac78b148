// SPDX-License-Identifier: Apache-2.0
// The micro-batches of a training step, as this rank computes them: a stage of a pipeline, or the whole model.
#pragma once

#include <cstddef>
#include <cstdint>

#include "app/setup/resolve.hpp"
#include "shoal/data/loader.hpp"
#include "shoal/pipeline/runner.hpp"

namespace shoal::app {

class MicroBatches final : public pipeline::Stage {
 public:
  /// All arguments must outlive this object.
  MicroBatches(const ResolvedRun& resolved, const sync::NodeGroups& groups, zero::Engine& engine);

  /// The step, counted from 0, whose samples and random numbers the following passes take.
  void begin_step(std::int64_t step) { step_ = step; }

  std::size_t turns() const { return engine_.accumulation().turns(); }
  /// Index of this rank's micro-batch of a turn among those of a step of this node, or of all nodes.
  std::size_t index_in_node(std::size_t turn) const;
  std::size_t index_in_step(std::size_t turn) const;

  void forward(int part, std::size_t turn, const pipeline::Borders& borders) override;
  /// A gradient that is complete begins to be reduced meanwhile.
  void backward(int part, std::size_t turn, const pipeline::Borders& borders) override;
  std::size_t micro_batch(std::size_t turn) const override { return index_in_step(turn); }
  int first_unit(int part) const override { return engine_.first_unit(static_cast<std::size_t>(part)); }

 private:
  void load(std::size_t m, model::MicroBatch& batch);

  const config::Options& options_;
  const sync::NodeGroups& groups_;
  zero::Engine& engine_;
  data::SampleOrder order_;
  data::Loader loader_;
  std::int64_t step_ = 0;
};

}  // namespace shoal::app
