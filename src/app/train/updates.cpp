// SPDX-License-Identifier: Apache-2.0
#include "app/train/updates.hpp"

#include <cmath>

#include "app/checkpoint/checkpoint_state.hpp"
#include "shoal/base/error.hpp"

namespace shoal::app {

namespace {

/// The loss scaler's state by name, as a checkpoint keeps it.
std::map<std::string, double> numbers_of(const optim::LossScaler::State& state) {
  return {{loss_scale_number, state.scale},
          {"loss_scale/steps_since_overflow", static_cast<double>(state.steps_since_overflow)},
          {"loss_scale/hysteresis_left", static_cast<double>(state.hysteresis_left)}};
}

/// The same from a checkpoint's numbers; nothing if the run that wrote them was not in fp16.
std::optional<optim::LossScaler::State> loss_scale_of(const std::map<std::string, double>& numbers) {
  if (!numbers.contains(loss_scale_number)) return std::nullopt;
  return optim::LossScaler::State{numbers.at(loss_scale_number),
                                  static_cast<std::uint64_t>(numbers.at("loss_scale/steps_since_overflow")),
                                  static_cast<std::uint32_t>(numbers.at("loss_scale/hysteresis_left"))};
}

}  // namespace

Updates::Updates(const ResolvedRun& resolved) : options_(resolved.options) {
  if (options_.adascale.on) adascale_.emplace(options_, resolved.engine.micro_batches);
  if (resolved.engine.dtype == DType::f16) scaler_.emplace(options_.loss_scale);
}

void Updates::begin_step(std::int64_t t, zero::Engine& engine) {
  updates_ = t - skipped_;
  rates_ = optim::rates(options_.schedule, options_.optimizer, adascale_ ? adascale_->schedule_step() : updates_);
  if (adascale_ && adascale_->weighted() && updates_ > 0) engine.weigh_squares(updates_, rates_.beta2);
  if (scaler_) engine.scale_losses(scaler_->scale());
}

std::optional<optim::Optimizer::Step> Updates::decide(const zero::Norm& norm, Span<const double> squares,
                                                      StepReport& report) {
  const bool finite = std::isfinite(report.loss) && std::isfinite(norm.value);
  report.norm = norm.value;
  report.learning_rate = rates_.learning_rate;
  if (scaler_) {
    report.loss_scale = scaler_->scale();
    // The scale multiplies gradients only, so no scale mends a loss that is not finite: train.on_nan decides.
    report.overflow = !finite && std::isfinite(report.loss);
    report.at_least_scale = (finite || report.overflow) && !scaler_->update(report.overflow);
    if (report.at_least_scale) {
      report.broken = text("the gradients overflow at a loss scale of ", scaler_->scale(),
                           ", the least that is allowed; a smaller learning rate, or train.dtype = bf16, may help");
    }
  }
  report.updated = finite;
  if (!finite) {
    ++skipped_;
  } else if (adascale_) {
    const AdaScaling::Step step = adascale_->observe(updates_, squares, norm.square);
    report.gain = step.gain;
    report.learning_rate *= step.rate_factor;
  }
  if (adascale_) report.effective_steps = adascale_->effective_steps();
  report.last = done(report.step);
  if (!finite) return std::nullopt;
  return optim::Optimizer::Step{updates_ + 1, report.learning_rate, rates_.beta1, rates_.beta2, 1.0F};
}

bool Updates::done(std::int64_t steps) const {
  const auto total = static_cast<std::int64_t>(options_.train.steps);
  return steps >= total || (adascale_ && adascale_->schedule_step() >= total);
}

std::map<std::string, double> Updates::numbers(bool several_nodes) const {
  std::map<std::string, double> numbers;
  if (skipped_ > 0 || several_nodes) numbers[skipped_updates_number] = static_cast<double>(skipped_);
  if (adascale_) numbers.merge(adascale_->numbers());
  if (scaler_) numbers.merge(numbers_of(scaler_->state()));
  return numbers;
}

void Updates::restore(std::int64_t steps, const std::map<std::string, double>& numbers) {
  if (adascale_) adascale_->restore(steps, numbers);
  const auto skipped = numbers.find(skipped_updates_number);
  skipped_ = skipped == numbers.end() ? 0 : static_cast<std::int64_t>(skipped->second);
  if (const auto state = loss_scale_of(numbers); scaler_ && state) scaler_->restore(*state);
}

}  // namespace shoal::app
