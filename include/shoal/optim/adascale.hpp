// SPDX-License-Identifier: Apache-2.0
// AdaScale (Johnson et al. 2020, arXiv 2007.05105, algorithm 1 and appendix B.3), with the estimates of FairScale: how many
// steps of a small batch one step of a large batch replaces, computed from how much the gradients of its micro-batches
// differ. The caller computes the sums of squares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shoal/base/types.hpp"

namespace shoal::optim {

struct AdaScaleOptions {
  bool on = false;
  double scale = 0;       ///< large batch / small batch, at least 1; 0: the number of micro-batches of a step
  double smoothing = -1;  ///< weight of the past in the averages, below 1; negative: max(0, 1 - M / 1000)
  bool debias = true;     ///< correct the averages for their start at zero; false: plain means of the first steps
  double power = -1;      ///< the rate is multiplied by gain^power; negative: 1 for sgd, 1/2 for adamw
};

/// With S = scale, `variance` the variance of the gradient of a small batch (the trace of its covariance) and `square` the
/// squared norm of the true gradient,
///     gain = (variance + square) / (variance / S + square),    1 <= gain <= S.
/// The gain is near S if noise dominates the gradients, and near 1 if the large batch gives the same gradient as a small
/// one. A step counts as `gain` steps of the small batch. Tensors may be divided into groups with a gain each.
class AdaScale {
 public:
  /// M = micro_batches: number of independent gradients per step. Fails (bad_input) if there are less than 2, or if an
  /// option is out of its range.
  AdaScale(const AdaScaleOptions& options, std::size_t micro_batches, std::size_t groups = 1);

  /// Sums of squares of the gradients g_1 ... g_M of one step, for one group.
  struct Squares {
    double micro;  ///< |g_1|^2 + ... + |g_M|^2
    double mean;   ///< |(g_1 + ... + g_M) / M|^2
  };
  /// Takes the sums of a step, one element per group. They must be finite.
  void observe(Span<const Squares> groups);

  /// Gain of all groups together; 1 before the first observe().
  double gain() const;
  double gain(std::size_t group) const { return gain_of(state_.square[group], state_.variance[group]); }

  /// Counts a step that used gain().
  void advance() { state_.effective_steps += gain(); }
  /// Steps of the small batch that the steps so far replace.
  double effective_steps() const { return state_.effective_steps; }

  double scale() const { return scale_; }
  double smoothing() const { return smoothing_; }

  /// State for a checkpoint: the averages of each group, the number of steps in them, and the steps of the small batch.
  struct State {
    std::vector<double> square, variance;
    std::uint64_t observed = 0;
    double effective_steps = 0;
    bool operator==(const State&) const = default;
  };
  const State& state() const { return state_; }
  /// Continues from a saved state. Fails if its groups differ.
  void restore(const State& state);

 private:
  double gain_of(double square, double variance) const { return (variance + square) / (variance / scale_ + square); }
  double weight_of_newest() const;

  double micro_batches_, scale_, smoothing_;
  bool debias_;
  State state_;
};

}  // namespace shoal::optim
