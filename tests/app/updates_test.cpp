// SPDX-License-Identifier: Apache-2.0
// A step whose gradients are not finite is no update: it moves neither the schedule nor the powers of Adam's decays, and a
// resumed run remembers how many there were.
#include "app/train/updates.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <vector>

namespace shoal::app {
namespace of_updates_test {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// fp16, with a schedule that gives every update another rate. The loss scale is halved after each overflow.
ResolvedRun setup_of_fp16() {
  ResolvedRun resolved;
  resolved.options.model = {.n_layer = 1, .n_head = 2, .n_embd = 16, .block_size = 4, .vocab_size = 16, .init_from = ""};
  resolved.options.train.dtype = DType::f16;
  resolved.options.train.steps = 40;
  resolved.options.optimizer.lr = 0.01;
  resolved.options.schedule.kind = optim::ScheduleKind::cosine;
  resolved.options.schedule.warmup_steps = 4;
  resolved.options.schedule.total_steps = 40;
  resolved.options.loss_scale = {.initial_power = 10, .hysteresis = 1};
  resolved.engine.model = resolved.options.model;
  resolved.engine.dtype = DType::f16;
  resolved.engine.capacity = {.sequences = 1, .length = 4};
  return resolved;
}

/// Updates with an engine that only counts memory: it is told the loss scale alone.
class Stepping {
 public:
  Stepping() : resolved_(setup_of_fp16()), engine_(resolved_.engine, {0, 1, nullptr}, counting_), updates_(resolved_) {}
  Stepping(const Stepping&) = delete;
  Stepping& operator=(const Stepping&) = delete;

  std::optional<optim::Optimizer::Step> step(std::int64_t t, bool overflows) {
    updates_.begin_step(t, engine_);
    report_ = {};
    report_.step = t + 1;
    report_.loss = 1;
    return updates_.decide({.value = overflows ? infinity : 1, .square = 1}, {}, report_);
  }
  const StepReport& report() const { return report_; }
  Updates& operator*() { return updates_; }

  /// What update number `u` (from 0) of a run that skips none does.
  optim::Optimizer::Step expected(std::int64_t u) const {
    const optim::Rates rates = optim::rates(resolved_.options.schedule, resolved_.options.optimizer, u);
    return {u + 1, rates.learning_rate, rates.beta1, rates.beta2, 1.0F};
  }
  void expect(const std::optional<optim::Optimizer::Step>& found, std::int64_t u) const {
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->number, expected(u).number);
    EXPECT_EQ(found->learning_rate, expected(u).learning_rate);
    EXPECT_EQ(report_.learning_rate, expected(u).learning_rate);
  }

 private:
  Memory counting_;
  ResolvedRun resolved_;
  zero::Engine engine_;
  Updates updates_;
  StepReport report_;
};

const std::set<std::int64_t> overflowing = {0, 3, 4, 9};

TEST(SkippedSteps, AdvanceNeitherTheScheduleNorAdamsPowers) {
  Stepping run;
  ASSERT_NE(run.expected(0).learning_rate, run.expected(1).learning_rate) << "every update has a rate of its own";
  std::int64_t done = 0;
  double scale = 1024;
  for (std::int64_t t = 0; t < 14; ++t) {
    SCOPED_TRACE(testing::Message() << "step " << t << " after " << done << " updates");
    const bool overflows = overflowing.contains(t);
    const auto step = run.step(t, overflows);
    EXPECT_EQ(run.report().updated, !overflows);
    EXPECT_EQ(run.report().overflow, overflows);
    EXPECT_EQ(run.report().loss_scale, scale);
    if (overflows) {
      EXPECT_FALSE(step.has_value());
      scale /= 2;
    } else {
      run.expect(step, done++);
    }
  }
  EXPECT_EQ(done, 10);
}

TEST(SkippedSteps, AreRememberedByAResumedRun) {
  Stepping whole;
  for (std::int64_t t = 0; t < 10; ++t) whole.step(t, overflowing.contains(t));
  Stepping resumed;
  (*resumed).restore(10, (*whole).numbers(false));
  EXPECT_EQ((*resumed).loss_scale(), 64) << "1024, halved four times";
  resumed.expect(resumed.step(10, false), 6);
  whole.expect(whole.step(10, false), 6);
}

TEST(SkippedSteps, OfOneNodeAreWrittenOnlyIfThereAreAny) {
  Stepping whole, skipping;
  whole.step(0, false);
  skipping.step(0, true);
  EXPECT_FALSE((*whole).numbers(false).contains("skipped_updates"));
  EXPECT_EQ((*whole).numbers(true).at("skipped_updates"), 0) << "of several nodes each tells how many";
  EXPECT_EQ((*skipping).numbers(false).at("skipped_updates"), 1);
}

}  // namespace of_updates_test
}  // namespace shoal::app
