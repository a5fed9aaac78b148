// SPDX-License-Identifier: Apache-2.0
// The squared norm of each micro-batch's gradient, before it is added to any other: what AdaScale (optim/adascale.hpp)
// learns how gradients differ from. One rank has the whole gradient then, in every stage, so that no stage changes a bit of
// it.
#pragma once

#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/zero/sampled_weights.hpp"
#include "shoal/zero/stages.hpp"

namespace shoal::zero {

/// What is measured of gradients besides their norm.
enum class Squares : std::uint8_t {
  none,
  plain,     ///< sums of squares
  weighted,  ///< of a sample, in the units of second moments: [Note: weights of a sample] in zero/sampled_weights.hpp
};

class GradientSquares {
 public:
  GradientSquares() = default;  ///< none
  GradientSquares(Squares squares, const std::vector<ShardLayout>& layouts, const RankGroups& groups, Memory& memory);

  SampledWeights& weights() { return weights_; }

  /// The unit's gradient in this turn: its flat buffer. Does nothing where nothing is measured.
  void measure(int unit, const float* gradient);
  /// Over all units, after the turn's backward.
  double of_micro_step() const;

 private:
  std::vector<ShardLayout> layouts_;
  SampledWeights weights_;
  Span<double> granule_sums_;  // of the largest unit
  std::vector<double> unit_;   // by unit; empty: none
};

}  // namespace shoal::zero
