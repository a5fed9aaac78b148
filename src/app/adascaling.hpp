// SPDX-License-Identifier: Apache-2.0
// AdaScale in a run (optimizer.adascale): the schedule and the run's end go by steps of the small batch, and each update's
// rate grows with the gain. The same on all ranks, for it sees nothing but sums that all ranks have.
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

  /// Whether squares are weighted by second moments: before every step but the first, when there are none.
  bool weighted() const { return weighted_; }

  double effective_steps() const { return adascale_.effective_steps(); }
  /// The update, counted from 0, whose rates the schedule has for the next step.
  std::int64_t schedule_step() const { return static_cast<std::int64_t>(effective_steps()); }

  struct Step {
    double gain;
    double rate_factor;  ///< what the learning rate is multiplied by
  };
  /// A step that becomes an update, of gradients before clipping. micro_squares: by micro-batch, of its share in the step's
  /// gradient, the M-th part of it; mean_square: of the step's gradient. updates: how many were made before.
  Step observe(std::int64_t updates, Span<const double> micro_squares, double mean_square);

  /// For checkpoints; a run that had none goes on as if every one of its steps had been one of the small batch.
  std::map<std::string, double> numbers() const;
  void restore(std::int64_t steps, const std::map<std::string, double>& numbers);

 private:
  optim::AdaScale adascale_;
  bool weighted_;
  double power_;
};

}  // namespace shoal::app
