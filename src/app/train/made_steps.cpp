// SPDX-License-Identifier: Apache-2.0
#include "app/train/made_steps.hpp"

namespace shoal::app {

void MadeSteps::add(const StepReport& report) {
  if (count_++ == 0) first_ = report;
  last_ = report;
  overflows_ += report.overflow ? 1 : 0;
  not_finite_ += report.broken.empty() ? 0 : 1;
  skipped_ += report.overflow || !report.broken.empty() ? 1 : 0;
  any_updated_ = any_updated_ || report.updated;
  if (!keeps_numbers_) return;
  numbers_.push_back({report.loss, report.norm, report.seconds});
  if (report.gain != 0) gains_.emplace_back(report.step, report.gain);
}

std::vector<double> MadeSteps::seconds() const {
  std::vector<double> seconds;
  seconds.reserve(numbers_.size());
  for (const Numbers& step : numbers_) seconds.push_back(step.seconds);
  return seconds;
}

}  // namespace shoal::app
