// SPDX-License-Identifier: Apache-2.0
// One function per schedule. In those of DeepSpeed, i = t - 1 is the scheduler's own count at update t: the scheduler is
// created after the optimizer and stepped once after each update, so the first update uses i = -1.
#include "shoal/optim/schedule.hpp"

#include <algorithm>
#include <cmath>

#include "shoal/base/error.hpp"

namespace shoal::optim {

namespace {

constexpr double pi = 3.141592653589793;

double cosine_down(double p) { return 0.5 * (1.0 + std::cos(pi * std::min(1.0, p))); }

Rates constant(const ScheduleOptions&, const OptimizerOptions& optimizer, std::int64_t) {
  return {optimizer.lr, optimizer.beta1, optimizer.beta2};
}

Rates linear(const ScheduleOptions& schedule, const OptimizerOptions& optimizer, std::int64_t t) {
  const auto warmup = static_cast<double>(schedule.warmup_steps);
  const double share = schedule.warmup_steps == 0 ? 1.0 : std::min(1.0, static_cast<double>(t + 1) / warmup);
  return {optimizer.lr * share, optimizer.beta1, optimizer.beta2};
}

Rates cosine(const ScheduleOptions& schedule, const OptimizerOptions& optimizer, std::int64_t t) {
  const auto warmup = static_cast<std::int64_t>(schedule.warmup_steps);
  Rates rates = linear(schedule, optimizer, t);
  if (t < warmup) return rates;
  const auto fall = static_cast<double>(std::max<std::int64_t>(1, static_cast<std::int64_t>(schedule.total_steps) - warmup));
  const double share = cosine_down(static_cast<double>(t - warmup) / fall);
  rates.learning_rate = schedule.min_lr + (optimizer.lr - schedule.min_lr) * share;
  return rates;
}

// The schedules of DeepSpeed. W = max(2, warmup_num_steps) is the length of the warm-up, S the total number of steps.

double warmup_length(const ScheduleOptions& schedule) {
  return static_cast<double>(std::max<std::size_t>(2, schedule.warmup_steps));
}

/// Rises from 0 to 1 for 0 <= i < W: ln(i + 1) / ln W, or i / W.
double warmup_share(const ScheduleOptions& schedule, double i) {
  const double length = warmup_length(schedule);
  return schedule.warmup_kind == WarmupKind::log ? std::log(i + 1.0) / std::log(length) : i / length;
}

/// Falls linearly from 1 at i = W to 0 at i = S.
double decay_share(const ScheduleOptions& schedule, double i) {
  const auto total = static_cast<double>(schedule.total_steps);
  return std::max(0.0, (total - i) / std::max(1.0, total - warmup_length(schedule)));
}

double warmup_then(const ScheduleOptions& schedule, double max_lr, double i, double share_after) {
  if (i < 0) return schedule.min_lr;
  const double share = i < warmup_length(schedule) ? warmup_share(schedule, i) : share_after;
  return schedule.min_lr + (max_lr - schedule.min_lr) * share;
}

Rates warmup_lr(const ScheduleOptions& schedule, const OptimizerOptions& optimizer, std::int64_t t) {
  const double max_lr = schedule.warmup_max_lr < 0 ? optimizer.lr : schedule.warmup_max_lr;
  return {warmup_then(schedule, max_lr, static_cast<double>(t - 1), 1.0), optimizer.beta1, optimizer.beta2};
}

Rates warmup_decay_lr(const ScheduleOptions& schedule, const OptimizerOptions& optimizer, std::int64_t t) {
  const double max_lr = schedule.warmup_max_lr < 0 ? 0.001 : schedule.warmup_max_lr;
  const auto i = static_cast<double>(t - 1);
  return {warmup_then(schedule, max_lr, i, decay_share(schedule, i)), optimizer.beta1, optimizer.beta2};
}

/// The first update has rate 0, even if warmup_min_ratio is larger.
Rates warmup_cosine_lr(const ScheduleOptions& schedule, const OptimizerOptions& optimizer, std::int64_t t) {
  const auto i = static_cast<double>(t - 1);
  const double length = warmup_length(schedule);
  double ratio = 0;
  if (i >= 0 && i < length) {
    ratio = schedule.warmup_min_ratio + (1.0 - schedule.warmup_min_ratio) * warmup_share(schedule, i);
  } else if (i >= length) {
    const double fall = std::max(1.0, static_cast<double>(schedule.total_steps) - length);
    ratio = schedule.cos_min_ratio + (1.0 - schedule.cos_min_ratio) * cosine_down((i - length + 1.0) / fall);
  }
  return {optimizer.lr * ratio, optimizer.beta1, optimizer.beta2};
}

/// Height in the cycle, from 0 up to 1 and down to 0, in stairs if stair counts are set. Stairs are counted in integers, so
/// that rounding does not move their edges.
double cycle_height(const ScheduleOptions& schedule, std::size_t first, std::size_t second, std::size_t t) {
  const std::size_t place = t % (first + second);
  const bool rising = place <= first;
  const std::size_t climbed = rising ? place : first + second - place;
  const std::size_t length = rising ? first : second;
  const std::size_t first_stairs = schedule.cycle_first_stair_count;
  const std::size_t second_stairs =
      schedule.cycle_second_stair_count == 0 ? first_stairs : schedule.cycle_second_stair_count;
  const std::size_t stairs = rising ? first_stairs : second_stairs;
  if (stairs == 0) return static_cast<double>(climbed) / static_cast<double>(length);
  const std::size_t stair = climbed * stairs / length;
  return static_cast<double>(stair) / static_cast<double>(stairs);
}

/// One cycle (Smith 2018), then a slow decay. The momentum (beta1) moves against the rate, except at update 0, where both
/// have their lowest value: DeepSpeed sets it so before the first step. beta2 is 0.99.
Rates one_cycle(const ScheduleOptions& schedule, const OptimizerOptions& optimizer, std::int64_t t) {
  const std::size_t first = schedule.cycle_first_step_size;
  const std::size_t second = schedule.cycle_second_step_size == 0 ? first : schedule.cycle_second_step_size;
  require_input(first > 0, "schedule.cycle_first_step_size = 0: OneCycle needs at least 1");
  const auto total = static_cast<double>(first + second);
  const auto i = static_cast<double>(t - 1);
  double rate = 0;
  double momentum = 0;
  if (i < total) {
    const double height = cycle_height(schedule, first, second, static_cast<std::size_t>(t));
    rate = schedule.cycle_min_lr + (schedule.cycle_max_lr - schedule.cycle_min_lr) * height;
    momentum = schedule.cycle_max_mom - (schedule.cycle_max_mom - schedule.cycle_min_mom) * height;
  } else {
    const double intervals =
        schedule.decay_step_size == 0 ? 0.0 : (i - total + 1.0) / static_cast<double>(schedule.decay_step_size);
    rate = schedule.cycle_min_lr / (1.0 + schedule.decay_lr_rate * intervals);
    momentum = schedule.cycle_max_mom * (1.0 + schedule.decay_mom_rate * intervals);
  }
  if (t == 0) momentum = schedule.cycle_min_mom;
  if (!schedule.cycle_momentum) return {rate, optimizer.beta1, optimizer.beta2};
  return {rate, momentum, 0.99};
}

}  // namespace

Rates rates(const ScheduleOptions& schedule, const OptimizerOptions& optimizer, std::int64_t t) {
  const ScheduleRow& kind = row_of(schedule.kind);
  require(!kind.has.decays || schedule.total_steps > 0, kind.name, ": schedule.total_steps is not set");
  switch (schedule.kind) {
    case ScheduleKind::constant: return constant(schedule, optimizer, t);
    case ScheduleKind::linear: return linear(schedule, optimizer, t);
    case ScheduleKind::cosine: return cosine(schedule, optimizer, t);
    case ScheduleKind::WarmupLR: return warmup_lr(schedule, optimizer, t);
    case ScheduleKind::WarmupDecayLR: return warmup_decay_lr(schedule, optimizer, t);
    case ScheduleKind::WarmupCosineLR: return warmup_cosine_lr(schedule, optimizer, t);
    case ScheduleKind::OneCycle: return one_cycle(schedule, optimizer, t);
  }
  fail("schedule.kind has the value ", static_cast<int>(schedule.kind));
}

std::optional<std::int64_t> first_beta1_of_one(const ScheduleOptions& schedule, const OptimizerOptions& optimizer,
                                               std::int64_t updates) {
  const auto reached = [&](std::int64_t t) { return !(rates(schedule, optimizer, t).beta1 < 1); };
  if (updates < 1 || !reached(updates - 1)) return std::nullopt;
  std::int64_t below = -1, first = updates - 1;  // once it is 1, beta1 does not fall again
  while (first - below > 1) {
    const std::int64_t middle = below + (first - below) / 2;
    (reached(middle) ? first : below) = middle;
  }
  return first;
}

std::string describe(const ScheduleOptions& schedule) {
  const std::string warmup = text("linear warm-up over ", schedule.warmup_steps, " steps, then ");
  switch (schedule.kind) {
    case ScheduleKind::constant: return "constant";
    case ScheduleKind::linear: return warmup + "constant";
    case ScheduleKind::cosine: return text(warmup, "a cosine down to ", schedule.min_lr, " at step ", schedule.total_steps);
    default: return std::string("DeepSpeed's ") + name_of(schedule.kind);
  }
}

}  // namespace shoal::optim
