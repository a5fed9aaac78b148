// SPDX-License-Identifier: Apache-2.0
// AdaScale in a run (optimizer.adascale): the schedule and the run's end count steps of the small batch, and each update's
// learning rate grows with the gain. Its inputs are sums that all ranks have, so its results are equal on all ranks.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "shoal/config/options.hpp"
#include "shoal/optim/adascale.hpp"

namespace shoal::app {

class AdaScaling {
 public:
  AdaScaling(const config::Options& options, std::size_t micro_batches);

  /// Returns true if squares are weighted by Adam's second moments. In the first step there are none yet.
  bool weighted() const { return weighted_; }

  double effective_steps() const { return adascale_.effective_steps(); }
  /// Index of the schedule's update, counted from 0, whose rates the next step takes.
  std::int64_t schedule_step() const { return static_cast<std::int64_t>(effective_steps()); }

  struct Step {
    double gain;
    double rate_factor;  ///< what the learning rate is multiplied by
  };
  /// Observes a step whose gradients are applied. micro_squares: by micro-batch, |g / M|^2 of its gradient g, M being the
  /// number of micro-batches. mean_square: of the step's gradient, before clipping. updates: number of updates before.
  Step observe(std::int64_t updates, Span<const double> micro_squares, double mean_square);

  /// State for checkpoints. After a checkpoint without it each of the steps before counts as one step of the small batch.
  std::map<std::string, double> numbers() const;
  void restore(std::int64_t steps, const std::map<std::string, double>& numbers);

 private:
  optim::AdaScale adascale_;
  bool weighted_;
  double power_;
};

}  // namespace shoal::app
