// SPDX-License-Identifier: Apache-2.0
// AdaScale (Johnson et al. 2020, arXiv 2007.05105, algorithm 1 and appendix B.3): how much further a step of a large batch
// may go than one of a small batch, from how much the gradients of micro-batches differ; with FairScale's estimates. Given
// sums: who computes them is not its concern.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shoal/base/types.hpp"

namespace shoal::optim {

struct AdaScaleOptions {
  bool on = false;
  double scale = 0;       ///< large batch / small batch, at least 1; 0: the micro-batches of a step
  double smoothing = -1;  ///< weight that the averages keep from step to step, below 1; negative: max(0, 1 - M / 1000)
  bool debias = true;     ///< exponential averages without a bias to zero; false: a plain mean while that is the steadier
  double power = -1;      ///< the rate grows by gain^power; negative: 1, or 1/2 where gradients are divided by their size
};

/// With S = scale, the variance of a small batch's gradient (its trace) and the squared norm of the true gradient give
///     gain = (variance + square) / (variance / S + square),    1 <= gain <= S:
/// near S where gradients are noise, and near 1 where a large batch says what a small one says. A step counts as `gain`
/// steps of the small batch. Tensors may be told apart by groups, each with a gain of its own.
class AdaScale {
 public:
  /// M = micro_batches: independent gradients per step. Fails (bad input) below 2 of them, and where an option is out of its
  /// range.
  AdaScale(const AdaScaleOptions& options, std::size_t micro_batches, std::size_t groups = 1);

  /// What one step's gradients g_1 ... g_M showed, of one group.
  struct Squares {
    double micro;  ///< |g_1|^2 + ... + |g_M|^2
    double mean;   ///< |(g_1 + ... + g_M) / M|^2
  };
  /// One of each group; must be finite.
  void observe(Span<const Squares> groups);

  /// Of all groups together; 1 before anything was observed.
  double gain() const;
  double gain(std::size_t group) const { return gain_of(state_.square[group], state_.variance[group]); }

  /// A step was made with gain().
  void advance() { state_.effective_steps += gain(); }
  /// Steps of the small batch that were made so far.
  double effective_steps() const { return state_.effective_steps; }

  double scale() const { return scale_; }
  double smoothing() const { return smoothing_; }

  /// What a checkpoint keeps: the averages by group, over how many steps, and the steps of the small batch.
  struct State {
    std::vector<double> square, variance;
    std::uint64_t observed = 0;
    double effective_steps = 0;
    bool operator==(const State&) const = default;
  };
  const State& state() const { return state_; }
  /// Goes on from there; fails where it has other groups.
  void restore(const State& state);

 private:
  double gain_of(double square, double variance) const { return (variance + square) / (variance / scale_ + square); }
  double weight_of_newest() const;

  double micro_batches_, scale_, smoothing_;
  bool debias_;
  State state_;
};

}  // namespace shoal::optim
