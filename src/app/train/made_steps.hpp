// SPDX-License-Identifier: Apache-2.0
// Totals and numbers by step of a run, for summary.json and the closing lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "app/train/step_report.hpp"

namespace shoal::app {

/// Of each step only rank 0 keeps numbers, 24 bytes, for summary.json: a run of millions of steps must not fill the memory
/// of its nodes. All else is equal on all ranks.
class MadeSteps {
 public:
  struct Numbers {
    double loss = 0, norm = 0, seconds = 0;  ///< as in StepReport
  };

  explicit MadeSteps(bool keeps_numbers) : keeps_numbers_(keeps_numbers) {}
  void add(const StepReport& report);

  bool empty() const { return count_ == 0; }
  std::size_t size() const { return count_; }
  /// Only if there is one.
  const StepReport& first() const { return first_; }
  const StepReport& last() const { return last_; }
  /// Numbers of steps. A node skipped the update after an overflow (fp16), or because something was not finite.
  std::size_t overflows() const { return overflows_; }
  std::size_t not_finite() const { return not_finite_; }
  std::size_t skipped() const { return skipped_; }
  /// Returns true if an update was applied in a step.
  bool any_updated() const { return any_updated_; }

  /// On rank 0: of all steps, in order, from first().step on. Not a vector, which doubles its memory to grow.
  const std::deque<Numbers>& numbers() const { return numbers_; }
  /// On rank 0: the seconds of all steps.
  std::vector<double> seconds() const;
  /// On rank 0: AdaScale's gains, of the steps that were updates: (step, gain).
  const std::vector<std::pair<std::int64_t, double>>& gains() const { return gains_; }

 private:
  bool keeps_numbers_;
  std::size_t count_ = 0, overflows_ = 0, not_finite_ = 0, skipped_ = 0;
  bool any_updated_ = false;
  StepReport first_, last_;
  std::deque<Numbers> numbers_;
  std::vector<std::pair<std::int64_t, double>> gains_;
};

}  // namespace shoal::app
