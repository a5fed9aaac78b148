// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/error.hpp"
#include "validate.hpp"

namespace shoal::config {

using optim::ScheduleKind;

namespace {

std::vector<std::string> one_cycle_problems(const optim::ScheduleOptions& s) {
  std::vector<std::string> problems;
  if (s.cycle_min_lr > s.cycle_max_lr) {
    problems.push_back(
        text("schedule.cycle_min_lr = ", s.cycle_min_lr, " is above schedule.cycle_max_lr = ", s.cycle_max_lr));
  }
  if (s.cycle_momentum && s.cycle_min_mom > s.cycle_max_mom) {
    problems.push_back(
        text("schedule.cycle_min_mom = ", s.cycle_min_mom, " is above schedule.cycle_max_mom = ", s.cycle_max_mom));
  }
  return problems;
}

}  // namespace

std::string no_decay_hint(const std::string& option, const optim::ScheduleOptions& schedule) {
  const bool of_a_decay = option == "schedule.min_lr" || option == "schedule.total_steps";
  if (schedule.kind != ScheduleKind::linear || !of_a_decay) return {};
  return ", which is a linear warm-up and then constant; kinds that decay: cosine, WarmupDecayLR, WarmupCosineLR, OneCycle";
}

std::vector<std::string> schedule_problems(const Options& options, const std::string& total_name) {
  const optim::ScheduleOptions& s = options.schedule;
  const optim::ScheduleTraits& has = row_of(s.kind).has;
  if (s.kind == ScheduleKind::OneCycle) return one_cycle_problems(s);
  std::vector<std::string> problems;
  if (has.decays && s.warmup_steps > s.total_steps) {
    problems.push_back(text("schedule.warmup_steps = ", s.warmup_steps, " is above ", total_name, " = ", s.total_steps,
                            ", at which ", name_of(s.kind), " ends; allowed: at most ", s.total_steps));
  }
  if (has.max_lr && s.warmup_max_lr >= 0 && s.min_lr > s.warmup_max_lr) {
    problems.push_back(text("schedule.min_lr = ", s.min_lr, " is above schedule.warmup_max_lr = ", s.warmup_max_lr));
  }
  if (s.kind == ScheduleKind::cosine && s.min_lr > options.optimizer.lr) {
    problems.push_back(text("schedule.min_lr = ", s.min_lr, " is above optimizer.lr = ", options.optimizer.lr));
  }
  return problems;
}

}  // namespace shoal::config
