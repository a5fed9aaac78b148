// SPDX-License-Identifier: Apache-2.0
// Learning rates, update by update. DeepSpeed's schedules are followed to the letter (deepspeed/runtime/lr_schedules.py as
// of 0.19: the rate of update t is what the scheduler holds after t steps, so WarmupLR starts with two updates at its
// minimum).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shoal/optim/optimizer.hpp"

namespace shoal::optim {

struct ScheduleOptions {
  std::string kind = "constant";  ///< constant, linear, cosine, WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle
  std::size_t warmup_steps = 0;
  std::string warmup_kind = "log";  ///< log, linear: DeepSpeed's
  double min_lr = 0;
  std::size_t total_steps = 0;                          ///< 0: train.steps
  double warmup_max_lr = -1;                            ///< DeepSpeed's; negative: its default
  double warmup_min_ratio = 0, cos_min_ratio = 0.0001;  ///< WarmupCosineLR
  // OneCycle
  double cycle_min_lr = 0, cycle_max_lr = 0.001, decay_lr_rate = 0;
  std::size_t cycle_first_step_size = 2000, cycle_second_step_size = 0;  ///< second: 0 = as the first
  std::size_t cycle_first_stair_count = 0, cycle_second_stair_count = 0, decay_step_size = 0;
  bool cycle_momentum = true;
  double cycle_min_mom = 0.8, cycle_max_mom = 0.9, decay_mom_rate = 0;
};

/// What one update uses.
struct Rates {
  double learning_rate, beta1, beta2;
};

/// t: the update, counted from 0. total_steps must be set where the kind needs it.
Rates rates(const ScheduleOptions& schedule, const OptimizerOptions& optimizer, std::int64_t t);
std::vector<std::string> schedule_kinds();
/// In words, for the log: "linear warm-up over 10 steps, then constant".
std::string describe(const ScheduleOptions& schedule);

}  // namespace shoal::optim
