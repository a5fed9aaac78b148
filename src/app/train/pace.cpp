// SPDX-License-Identifier: Apache-2.0
#include "app/train/pace.hpp"

#include <algorithm>
#include <cmath>

namespace shoal::app {

Pace::Pace(double end, std::int64_t first_step, const Pause& evaluations, const Pause& saves)
    : end_(end), first_step_(first_step), evaluations_{.when = evaluations}, saves_{.when = saves} {}

void Pace::step(std::int64_t number, double at, double advance, double seconds) {
  step_ = number;
  at_ = at;
  if (number == first_step_ + 1) return;
  moved_ += advance;
  seconds_ += seconds;
  ++steps_;
}

/// Those that come after this step, each as long as the mean of those before it.
double Pace::Pauses::left_s(std::int64_t step, double steps_left) const {
  if (count == 0) return 0;
  const double last = static_cast<double>(step) + steps_left, every = static_cast<double>(when.every);
  double pauses = when.every == 0 ? 0 : std::floor(last / every) - std::floor(static_cast<double>(step) / every);
  if (when.at_end && steps_left > 0 && (when.every == 0 || std::fmod(last, every) != 0)) ++pauses;
  return pauses * seconds / static_cast<double>(count);
}

std::optional<double> Pace::left_s() const {
  if (at_ >= end_) return 0;
  if (moved_ <= 0) return std::nullopt;
  const double steps_left = std::max(1.0, std::round((end_ - at_) * steps_ / moved_));
  return steps_left * seconds_ / steps_ + evaluations_.left_s(step_, steps_left) + saves_.left_s(step_, steps_left);
}

}  // namespace shoal::app
