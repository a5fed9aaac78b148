// SPDX-License-Identifier: Apache-2.0
// Which steps update the parameters, and with which rates: the learning rate's schedule, AdaScale, and the loss scale of
// fp16. All of it follows from numbers that all ranks of a step have, so they decide alike.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "app/setup/resolve.hpp"
#include "app/train/adascaling.hpp"
#include "app/train/step_report.hpp"
#include "shoal/optim/loss_scale.hpp"
#include "shoal/optim/schedule.hpp"
#include "shoal/zero/engine.hpp"

namespace shoal::app {

class Updates {
 public:
  /// setup must outlive this object.
  explicit Updates(const ResolvedRun& resolved);

  /// Before the first micro-batch of step t, counted from 0: sets how the engine scales the step's gradients, and what it
  /// measures of them. Collective.
  void begin_step(std::int64_t t, zero::Engine& engine);
  /// AdaScale needs the squares of the gradients of all micro-batches.
  bool needs_squares() const { return adascale_.has_value(); }
  /// Returns what the optimizer does with the step's gradients; nothing if they are not finite, so that the step is skipped.
  /// squares: by micro-batch, if they are needed. Completes the report, which has the step and its loss.
  std::optional<optim::Optimizer::Step> decide(const zero::Norm& norm, Span<const double> squares, StepReport& report);

  /// The factor on the losses of the next step.
  double loss_scale() const { return scaler_ ? scaler_->scale() : 1; }

  /// Returns true if the run is complete after `steps` steps. With AdaScale train.steps counts steps of the small batch, so
  /// fewer steps are enough; there are never more than train.steps, even if updates were skipped.
  bool done(std::int64_t steps) const;

  /// State for checkpoints. Nodes that train locally may have skipped different steps, so each tells how many, even if none.
  std::map<std::string, double> numbers(bool several_nodes) const;
  /// Continues after `steps` steps.
  void restore(std::int64_t steps, const std::map<std::string, double>& numbers);

 private:
  const config::Options& options_;
  std::optional<optim::LossScaler> scaler_;  // fp16
  std::optional<AdaScaling> adascale_;
  std::int64_t skipped_ = 0;  // steps without an update; the schedule and the optimizer do not count them
  std::int64_t updates_ = 0;  // before the current step
  optim::Rates rates_ = {};   // of the current step
};

}  // namespace shoal::app
