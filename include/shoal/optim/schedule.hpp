// SPDX-License-Identifier: Apache-2.0
// Learning rates, update by update. DeepSpeed's schedules are followed exactly (deepspeed/runtime/lr_schedules.py of version
// 0.19): update t uses the rate that the scheduler has after t steps, so WarmupLR begins with two updates at its minimum.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "shoal/optim/optimizer.hpp"

namespace shoal::optim {

/// schedule.kind. The kinds written with capitals are DeepSpeed's. A new schedule is a value and a row here, and a function
/// and a case in src/optim/schedule.cpp.
enum class ScheduleKind : std::uint8_t { constant, linear, cosine, WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle };
struct ScheduleTraits {
  // The options that it uses, in addition to optimizer.lr.
  bool warmup = false;  ///< warmup_steps
  bool curve = false;   ///< warmup_kind
  bool min_lr = false;  ///< min_lr
  bool decays = false;  ///< total_steps
  bool max_lr = false;  ///< warmup_max_lr
  bool ratios = false;  ///< warmup_min_ratio, cos_min_ratio
  bool cycle = false;   ///< cycle_* and decay_*
  /// DeepSpeed has a scheduler of this name.
  bool deepspeed = false;
};
struct ScheduleRow {
  ScheduleKind value;
  const char* name;
  ScheduleTraits has;
};
inline constexpr std::array schedule_kinds = {
    ScheduleRow{ScheduleKind::constant, "constant", {}},
    ScheduleRow{ScheduleKind::linear, "linear", {.warmup = true}},
    ScheduleRow{ScheduleKind::cosine, "cosine", {.warmup = true, .min_lr = true, .decays = true}},
    ScheduleRow{ScheduleKind::WarmupLR,
                "WarmupLR",
                {.warmup = true, .curve = true, .min_lr = true, .max_lr = true, .deepspeed = true}},
    ScheduleRow{ScheduleKind::WarmupDecayLR,
                "WarmupDecayLR",
                {.warmup = true, .curve = true, .min_lr = true, .decays = true, .max_lr = true, .deepspeed = true}},
    ScheduleRow{ScheduleKind::WarmupCosineLR,
                "WarmupCosineLR",
                {.warmup = true, .curve = true, .decays = true, .ratios = true, .deepspeed = true}},
    ScheduleRow{ScheduleKind::OneCycle, "OneCycle", {.cycle = true, .deepspeed = true}},
};
constexpr const auto& table_of(ScheduleKind) { return schedule_kinds; }

/// schedule.warmup_kind: the curve of DeepSpeed's warm-ups.
enum class WarmupKind : std::uint8_t { log, linear };
inline constexpr std::array warmup_kind_names = {Named{WarmupKind::log, "log"}, Named{WarmupKind::linear, "linear"}};
constexpr const auto& table_of(WarmupKind) { return warmup_kind_names; }

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::constant;
  std::size_t warmup_steps = 0;
  WarmupKind warmup_kind = WarmupKind::log;
  double min_lr = 0;
  std::size_t total_steps = 0;                          ///< 0: train.steps
  double warmup_max_lr = -1;                            ///< of DeepSpeed's warm-ups; negative: DeepSpeed's default
  double warmup_min_ratio = 0, cos_min_ratio = 0.0001;  ///< WarmupCosineLR
  // OneCycle
  double cycle_min_lr = 0, cycle_max_lr = 0.001, decay_lr_rate = 0;
  std::size_t cycle_first_step_size = 2000, cycle_second_step_size = 0;  ///< second: 0: as the first
  std::size_t cycle_first_stair_count = 0, cycle_second_stair_count = 0, decay_step_size = 0;
  bool cycle_momentum = true;
  double cycle_min_mom = 0.8, cycle_max_mom = 0.9, decay_mom_rate = 0;
};

/// The rates of one update.
struct Rates {
  double learning_rate, beta1, beta2;
};

/// t: the update, counted from 0. total_steps must be set if the kind needs it.
Rates rates(const ScheduleOptions& schedule, const OptimizerOptions& optimizer, std::int64_t t);
/// The number, from 0, of the first of `updates` updates whose beta1 is 1 or more; none if all are below 1. OneCycle's beta1
/// may rise without a bound after the cycle.
std::optional<std::int64_t> first_beta1_of_one(const ScheduleOptions& schedule, const OptimizerOptions& optimizer,
                                               std::int64_t updates);
/// A description for the log: "linear warm-up over 10 steps, then constant".
std::string describe(const ScheduleOptions& schedule);

}  // namespace shoal::optim
