// SPDX-License-Identifier: Apache-2.0
// The squared norm of each micro-batch's gradient, before it is added to any other. AdaScale (optim/adascale.hpp) estimates
// the variance of gradients from it. In every stage one rank has the whole gradient at that time, so the result has the same
// bits in all of them.
#pragma once

#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/zero/engine_options.hpp"
#include "shoal/zero/stages.hpp"
#include "zero/sampled_weights.hpp"

namespace shoal::zero {

class GradientSquares {
 public:
  GradientSquares() = default;  ///< measures nothing
  /// micro_steps: micro-batches that this rank computes in a step.
  GradientSquares(Squares squares, const std::vector<ShardLayout>& layouts, const RankGroups& groups,
                  std::size_t micro_steps, Memory& memory);

  SampledWeights& weights() { return weights_; }

  /// Enqueues the unit's sum. gradient: its flat buffer, of this micro-step of the step. Does nothing with Squares::none.
  void measure(int unit, const float* gradient, std::size_t micro_step);
  /// Enqueues a copy of the step's sums to the host.
  void fetch();
  /// After the host has waited for an event behind fetch(). Collective over RankGroups::model: the sums of absent units come
  /// from their stages.
  void share();
  /// Sum over all units, after share(). 0 with Squares::none.
  double of_micro_step(std::size_t micro_step) const;

 private:
  std::vector<ShardLayout> layouts_;
  RankGroups groups_;
  SampledWeights weights_;
  Span<double> granule_sums_;  // of the largest unit
  device::Cells sums_;         // by micro-step, by unit; none with Squares::none
};

}  // namespace shoal::zero
