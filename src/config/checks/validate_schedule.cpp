// SPDX-License-Identifier: Apache-2.0
#include <initializer_list>
#include <optional>

#include "config/checks/validate.hpp"
#include "shoal/base/error.hpp"
#include "shoal/config/table.hpp"

namespace shoal::config {

using optim::ScheduleKind;

namespace {

/// Returns true if OneCycle sets beta1 and beta2. SGD has no betas.
bool cycles_momentum(const Options& o) {
  return o.schedule.kind == ScheduleKind::OneCycle && o.schedule.cycle_momentum &&
         o.optimizer.kind != optim::OptimizerKind::sgd;
}

std::vector<IdleOption> idle_with_one_cycle(const Options& o) {
  const optim::ScheduleOptions& s = o.schedule;
  const bool sgd = o.optimizer.kind == optim::OptimizerKind::sgd, momentum = cycles_momentum(o);
  std::vector<IdleOption> idle;
  const auto add = [&](std::initializer_list<const char*> names, const std::string& with, const std::string& instead) {
    for (const char* const name : names) idle.push_back({name, with, instead});
  };
  add({"optimizer.lr"}, "schedule.kind = OneCycle", ", whose rates are schedule.cycle_min_lr and schedule.cycle_max_lr");
  if (momentum) {
    add({"optimizer.beta1", "optimizer.beta2"}, "schedule.kind = OneCycle and schedule.cycle_momentum = true",
        "; it needs schedule.cycle_momentum = false");
  }
  const char* const no_betas = "optimizer.kind = sgd";
  const char* const with_betas = "; it needs optimizer.kind = adamw";
  if (sgd) add({"schedule.cycle_momentum"}, no_betas, with_betas);
  if (sgd && s.cycle_momentum) {
    add({"schedule.cycle_min_mom", "schedule.cycle_max_mom", "schedule.decay_mom_rate"}, no_betas, with_betas);
  }
  if (s.decay_step_size == 0) {
    const char* const none = "schedule.decay_step_size = 0";
    const char* const some = "; it needs a schedule.decay_step_size above 0";
    add({"schedule.decay_lr_rate"}, none, some);
    if (momentum) add({"schedule.decay_mom_rate"}, none, some);
  } else if (s.decay_lr_rate == 0 && (!momentum || s.decay_mom_rate == 0)) {
    add({"schedule.decay_step_size"}, text("schedule.decay_lr_rate = 0", momentum ? " and schedule.decay_mom_rate = 0" : ""),
        "; it needs a rate above 0");
  }
  return idle;
}

std::vector<std::string> one_cycle_problems(const Options& o) {
  const optim::ScheduleOptions& s = o.schedule;
  std::vector<std::string> problems;
  if (s.cycle_min_lr > s.cycle_max_lr) {
    problems.push_back(
        text("schedule.cycle_min_lr = ", s.cycle_min_lr, " is above schedule.cycle_max_lr = ", s.cycle_max_lr));
  }
  if (!cycles_momentum(o)) return problems;
  if (s.cycle_min_mom > s.cycle_max_mom) {
    problems.push_back(
        text("schedule.cycle_min_mom = ", s.cycle_min_mom, " is above schedule.cycle_max_mom = ", s.cycle_max_mom));
  }
  if (const auto t = optim::first_beta1_of_one(s, o.optimizer, static_cast<std::int64_t>(o.train.steps))) {
    problems.push_back(text("schedule.decay_mom_rate = ", s.decay_mom_rate, " raises beta1 to 1 or more at step ", *t + 1,
                            ", within train.steps = ", o.train.steps,
                            "; allowed: a smaller rate, a larger schedule.decay_step_size, or fewer steps"));
  }
  return problems;
}

}  // namespace

std::string no_decay_hint(const std::string& option, const optim::ScheduleOptions& schedule) {
  const bool of_a_decay = option == "schedule.min_lr" || option == "schedule.total_steps";
  if (schedule.kind != ScheduleKind::linear || !of_a_decay) return {};
  return ", which is a linear warm-up and then constant; kinds that decay: cosine, WarmupDecayLR, WarmupCosineLR, OneCycle";
}

std::vector<IdleOption> idle_with_schedule(const Options& options) {
  const optim::ScheduleOptions& s = options.schedule;
  if (s.kind == ScheduleKind::OneCycle) return idle_with_one_cycle(options);
  const bool same = s.warmup_max_lr == options.optimizer.lr;  // both say the highest rate, so neither is idle
  if (s.kind == ScheduleKind::WarmupDecayLR && !same) {
    return {{"optimizer.lr", "schedule.kind = WarmupDecayLR", ", whose highest rate is schedule.warmup_max_lr"}};
  }
  if (s.kind == ScheduleKind::WarmupLR && s.warmup_max_lr >= 0) {
    return {{"optimizer.lr", "schedule.warmup_max_lr = " + value_text(*find("schedule.warmup_max_lr"), options),
             "; it needs schedule.warmup_max_lr = auto"}};
  }
  return {};
}

std::vector<std::string> schedule_problems(const Options& options, const std::string& total_name) {
  const optim::ScheduleOptions& s = options.schedule;
  const optim::ScheduleTraits& has = row_of(s.kind).has;
  if (s.kind == ScheduleKind::OneCycle) return one_cycle_problems(options);
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
