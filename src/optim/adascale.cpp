// SPDX-License-Identifier: Apache-2.0
#include "shoal/optim/adascale.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "shoal/base/error.hpp"

namespace shoal::optim {

namespace {

constexpr double least_variance = 1e-6;  // as in FairScale: with it, the gain of equal gradients is 1, not 0 / 0

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

}  // namespace

AdaScale::AdaScale(const AdaScaleOptions& options, std::size_t micro_batches, std::size_t groups)
    : micro_batches_(static_cast<double>(micro_batches)),
      scale_(options.scale == 0 ? micro_batches_ : options.scale),
      smoothing_(options.smoothing < 0 ? std::max(0.0, 1.0 - micro_batches_ / 1000) : options.smoothing),
      debias_(options.debias),
      state_{std::vector<double>(groups, 1.0), std::vector<double>(groups, 0.0), 0, 0} {
  require_input(micro_batches >= 2, "optimizer.adascale = true needs 2 micro-batches a step or more, to see how their ",
                "gradients differ, not ", micro_batches);
  require_input(std::isfinite(scale_) && scale_ >= 1, "optimizer.adascale_scale = ", scale_, ": must be at least 1");
  require_input(smoothing_ < 1, "optimizer.adascale_smoothing = ", smoothing_, ": must be below 1");
}

/// [Note: averages as one rule] All averages follow average += w (value - average), with a weight w of the new value. An
/// exponential average from zero, divided by the sum of its weights, has w = (1 - b) / (1 - b^t) at value t; a plain mean
/// has w = 1 / t; a plain exponential average has w = 1 - b. So t is the only state besides the average.
double AdaScale::weight_of_newest() const {
  const auto t = static_cast<double>(state_.observed);
  if (debias_) return (1 - smoothing_) / (1 - std::pow(smoothing_, t));
  return t < 1 / (1 - smoothing_) ? 1 / t : 1 - smoothing_;
}

void AdaScale::observe(Span<const Squares> groups) {
  require(groups.size() == state_.square.size(), "AdaScale: sums of ", groups.size(), " groups, not ", state_.square.size());
  ++state_.observed;
  const double weight = weight_of_newest();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    require(std::isfinite(groups[i].micro) && std::isfinite(groups[i].mean), "AdaScale: a gradient that is not finite");
    const double variance = scale_ * (groups[i].micro / micro_batches_ - groups[i].mean) /
                            (micro_batches_ - 1);  // variance of the gradient of a small batch
    const double square = std::max(0.0, groups[i].mean - variance / scale_);
    state_.variance[i] += weight * (std::max(least_variance, variance) - state_.variance[i]);
    state_.square[i] += weight * (square - state_.square[i]);
  }
}

double AdaScale::gain() const { return gain_of(sum(state_.square), sum(state_.variance)); }

void AdaScale::restore(const State& state) {
  require(state.square.size() == state_.square.size() && state.variance.size() == state_.square.size(),
          "AdaScale: a state of other groups cannot be restored");
  require(gain_of(sum(state.square), sum(state.variance)) >= 1 && state.effective_steps >= 0, "AdaScale: averages of ",
          sum(state.square), " and ", sum(state.variance), " cannot be restored");
  state_ = state;
}

}  // namespace shoal::optim
