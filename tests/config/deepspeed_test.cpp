// SPDX-License-Identifier: Apache-2.0
// Options that follow from DeepSpeed configurations. Those that are refused are in tests/refusals/ds_*.json.
#include "config/deepspeed/deepspeed.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "shoal/base/error.hpp"
#include "shoal/config/table.hpp"

namespace shoal::config {
namespace of_deepspeed_test {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class DeepSpeed : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_);
    fs::current_path(folder_);  // so that messages name the files by their names alone
  }
  void TearDown() override {
    fs::current_path("/");
    fs::remove_all(folder_);
  }

  /// Reads and checks the configuration for `ranks` ranks. It may use features that are not built, because of --dry-run.
  static Invocation run(const std::string& json, int ranks = 1, const std::string& deck = "",
                        std::vector<const char*> more = {}) {
    std::ofstream("ds.json") << json;
    std::ofstream("a.cfg") << deck;
    std::vector<const char*> words = {"a.cfg", "--deepspeed", "ds.json", "--dry-run"};
    words.insert(words.end(), more.begin(), more.end());
    Invocation invocation = parse({.name = "train", .summary = ""}, static_cast<int>(words.size()), words.data());
    validate(invocation, ranks);
    return invocation;
  }
  static std::string refusal(const std::string& json, int ranks = 1, const std::string& deck = "",
                             std::vector<const char*> more = {}) {
    try {
      run(json, ranks, deck, std::move(more));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::bad_input);
      return error.what();
    }
    return "accepted";
  }
  static std::string value(const Invocation& invocation, const char* option) {
    return value_text(*find(option), invocation.options);
  }

 private:
  fs::path folder_ = fs::temp_directory_path() / ("shoal-deepspeed-" + std::to_string(getpid()));
};

TEST_F(DeepSpeed, TwoBatchSizesGiveTheThird) {
  const auto batch = [](const std::string& json, int ranks, const std::string& deck = "",
                        std::vector<const char*> more = {}) {
    const BatchOptions options = run(json, ranks, deck, std::move(more)).options.batch;
    return std::pair(options.global, options.micro);
  };
  using Pair = std::pair<std::size_t, std::size_t>;
  const std::string global = R"("train_batch_size": 64)", micro = R"("train_micro_batch_size_per_gpu": 4)",
                    times = R"("gradient_accumulation_steps": 2)";
  EXPECT_EQ(batch("{" + global + "}", 4), Pair(64, 16));
  EXPECT_EQ(batch("{" + global + "," + times + "}", 4), Pair(64, 8));
  EXPECT_EQ(batch("{" + global + "," + micro + "}", 4), Pair(64, 4));
  EXPECT_EQ(batch("{" + micro + "}", 4), Pair(16, 4));
  EXPECT_EQ(batch("{" + micro + "," + times + "}", 4), Pair(32, 4));
  EXPECT_EQ(batch("{" + global + "," + micro + "," + times + "}", 8), Pair(64, 4));
  // The deck may set a batch size that the file does not determine. The command line may replace those of the file, too.
  EXPECT_EQ(batch("{" + global + "}", 4, "batch.micro = 8"), Pair(64, 8));
  EXPECT_EQ(batch("{" + micro + "}", 4, "batch.global = 48"), Pair(48, 4));
  EXPECT_EQ(batch("{" + micro + "," + times + "}", 4, "", {"--batch.micro=1"}), Pair(8, 1));
  EXPECT_EQ(batch("{" + global + "," + micro + "," + times + "}", 1, "", {"--batch.micro=1", "--batch.global=3"}),
            Pair(3, 1));
  EXPECT_EQ(refusal("{" + micro + "," + times + "}", 1, "batch.global = 9"),
            "a.cfg:1: batch.global = 9 is not batch.micro (4) [ds.json:1 (train_micro_batch_size_per_gpu)] x "
            "gradient_accumulation_steps (2) x ranks (1) = 8");
}

/// The templates of Hugging Face's libraries, in short: the deck has what the arguments of a training script have there.
const char* const all_auto = R"({
  "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
  "gradient_clipping": "auto", "steps_per_print": "auto", "fp16": {"enabled": "auto", "loss_scale": 0},
  "bf16": {"enabled": "auto"},
  "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
  "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto",
    "warmup_num_steps": "auto", "total_num_steps": "auto"}},
  "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto"}})";

TEST_F(DeepSpeed, AutoIsTheValueOfTheDeckOrOfTheCommandLine) {
  const Invocation by_deck = run(all_auto, 2,
                                 "batch.micro = 2\nbatch.global = 8\ntrain.dtype = bf16\ntrain.grad_clip = 0.5\n"
                                 "train.steps = 20\ntrain.log_every = 3\noptimizer.lr = 3e-4\noptimizer.beta2 = 0.98\n"
                                 "optimizer.weight_decay = 0.01\nschedule.warmup_steps = 4\n",
                                 {"--optimizer.beta1=0.7"});
  for (const auto& [option, expected] : std::vector<std::pair<const char*, const char*>>{{"batch.micro", "2"},
                                                                                         {"batch.global", "8"},
                                                                                         {"train.dtype", "bf16"},
                                                                                         {"train.grad_clip", "0.5"},
                                                                                         {"train.log_every", "3"},
                                                                                         {"optimizer.lr", "3e-4"},
                                                                                         {"optimizer.beta1", "0.7"},
                                                                                         {"optimizer.beta2", "0.98"},
                                                                                         {"optimizer.weight_decay", "0.01"},
                                                                                         {"schedule.kind", "WarmupDecayLR"},
                                                                                         {"schedule.warmup_max_lr", "3e-4"},
                                                                                         {"schedule.warmup_steps", "4"},
                                                                                         {"schedule.total_steps", "20"},
                                                                                         {"zero.stage", "3"}}) {
    EXPECT_EQ(value(by_deck, option), expected) << option;
  }
  EXPECT_NO_THROW(run(R"({"train_batch_size": 8})", 2, print(by_deck.options))) << "it is printed as a deck of the same run";
}

TEST_F(DeepSpeed, AutoIsTheDefaultWhereNothingIsSaid) {
  const Options defaults, options = run(all_auto, 2).options;
  EXPECT_EQ(options.batch.micro, defaults.batch.micro);
  EXPECT_EQ(options.batch.global, 2 * defaults.batch.micro);
  EXPECT_EQ(options.train.grad_clip, defaults.train.grad_clip);
  EXPECT_EQ(options.optimizer.beta2, defaults.optimizer.beta2);
  EXPECT_EQ(options.optimizer.weight_decay, defaults.optimizer.weight_decay);
  EXPECT_EQ(options.schedule.warmup_steps, defaults.schedule.warmup_steps);
  EXPECT_EQ(options.schedule.warmup_max_lr, defaults.optimizer.lr);
  EXPECT_EQ(options.schedule.total_steps, defaults.train.steps);
  EXPECT_EQ(options.comm.bucket_mb, defaults.comm.bucket_mb);
  // The deck's schedule and optimizer, where these are "auto" as a whole.
  const char* const open =
      R"({"train_micro_batch_size_per_gpu": "auto", "optimizer": {"type": "auto", "params": {"lr": 0.5}},
    "scheduler": {"type": "auto", "params": {"warmup_num_steps": 5}}})";
  const Options of_deck = run(open, 1, "optimizer.kind = sgd\nschedule.kind = cosine\nschedule.warmup_steps = 3").options;
  EXPECT_EQ(of_deck.optimizer.kind, optim::OptimizerKind::sgd);
  EXPECT_EQ(of_deck.optimizer.lr, 0.5);
  EXPECT_EQ(of_deck.schedule.kind, optim::ScheduleKind::cosine);
  EXPECT_EQ(of_deck.schedule.warmup_steps, 3U);
}

TEST_F(DeepSpeed, OneNoteListsTheKeysThatAreAuto) {
  const std::vector<std::string> notes =
      run("{\"train_batch_size\": \"auto\",\n\"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": \"auto\"}},\n"
          "\"gradient_clipping\": \"auto\"}")
          .notes;
  EXPECT_THAT(notes, testing::ElementsAre("ds.json: \"auto\" stands for the value of the deck or the command line, else for "
                                          "the default: train_batch_size, optimizer.params.lr, gradient_clipping"));
}

TEST_F(DeepSpeed, TheDeckGivesTheBatchThatTheFileLeavesOut) {
  const auto batch = [](const std::string& json, const std::string& deck) {
    const BatchOptions options = run(json, 2, deck).options.batch;
    return std::pair(options.global, options.micro);
  };
  using Pair = std::pair<std::size_t, std::size_t>;
  EXPECT_EQ(batch("{}", "batch.micro = 2\nbatch.global = 12"), Pair(12, 2));
  EXPECT_EQ(batch("{}", "batch.global = 32"), Pair(32, 8)) << "as without the file";
  EXPECT_EQ(batch(R"({"gradient_accumulation_steps": 2})", "batch.global = 32"), Pair(32, 8));
  EXPECT_EQ(batch(R"({"gradient_accumulation_steps": 3, "train_batch_size": "auto"})", ""), Pair(48, 8));
  EXPECT_EQ(batch(R"({"gradient_accumulation_steps": 3, "train_batch_size": "auto"})", "batch.micro = 2"), Pair(12, 2));
}

TEST_F(DeepSpeed, PrecedenceIsDefaultsDeckFileCommandLine) {
  const std::string json = "{\"train_batch_size\": 8,\n\"zero_optimization\": {\n\"stage\": 2}}";
  EXPECT_EQ(value(run(json), "zero.stage"), "2");
  EXPECT_EQ(run(json).places.of("zero.stage"), "ds.json:3 (zero_optimization.stage)");
  EXPECT_EQ(value(run(json, 1, "", {"--zero.stage=1"}), "zero.stage"), "1");
  EXPECT_EQ(value(run(json, 1, "zero.stage = 2"), "zero.stage"), "2");
  const std::string both = "a.cfg:2: zero.stage = 3, but ds.json:3 (zero_optimization.stage) gives 2; remove one of the two";
  EXPECT_EQ(refusal(json, 1, "\nzero.stage = 3"), both);
  EXPECT_EQ(refusal(json, 1, "\nzero.stage = 3", {"--zero.stage=1"}), both) << "the command line hides no contradiction";
  EXPECT_THAT(refusal(json, 1, "zero.stage = 0"), HasSubstr("zero.stage = 0, but ds.json:3")) << "a default that is said";
}

TEST_F(DeepSpeed, ADeckThatSaysHowOftenToLogNeedNotAgree) {
  const std::string json = R"({"train_batch_size": 8, "steps_per_print": 2000})";
  EXPECT_EQ(value(run(json), "train.log_every"), "2000");
  EXPECT_EQ(value(run(json, 1, "train.log_every = 5"), "train.log_every"), "5");
  EXPECT_THAT(run(json, 1, "train.log_every = 5").notes,
              Contains("ds.json:1: steps_per_print = 2000: no effect: train.log_every = 5 in a.cfg:1"));
  EXPECT_EQ(value(run(json, 1, "", {"--train.log_every=7"}), "train.log_every"), "7");
}

TEST_F(DeepSpeed, WhatItOnlyImpliesYieldsToTheDeck) {
  const std::string json = R"({"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"weight_decay": 0.01}}})";
  EXPECT_EQ(value(run(json), "optimizer.beta2"), "0.999");
  EXPECT_EQ(value(run(json), "optimizer.decay_1d"), "true");
  const Invocation other = run(json, 1, "optimizer.beta2 = 0.9\noptimizer.decay_1d = false\noptimizer.lr = 0.5");
  EXPECT_EQ(value(other, "optimizer.beta2"), "0.9");
  EXPECT_EQ(value(other, "optimizer.decay_1d"), "false");
  EXPECT_EQ(value(other, "optimizer.lr"), "0.5");
  EXPECT_THAT(refusal(json, 1, "optimizer.weight_decay = 0.1"),
              HasSubstr("ds.json:1 (optimizer.params.weight_decay) gives"));
}

TEST_F(DeepSpeed, OptimizersHaveDeepSpeedsDefaults) {
  const auto optimizer = [](const std::string& block) {
    return run("{\"train_batch_size\": 8, \"optimizer\": " + block + "}").options.optimizer;
  };
  EXPECT_EQ(optimizer(R"({"type": "Adam"})").kind, optim::OptimizerKind::adamw) << "adam_w_mode is DeepSpeed's default";
  EXPECT_EQ(optimizer(R"({"type": "Adam"})").weight_decay, 0);
  EXPECT_EQ(optimizer(R"({"type": "AdamW", "params": {"torch_adam": true}})").weight_decay, 0.01);
  EXPECT_EQ(optimizer(R"({"type": "AdamW", "params": {"betas": [0.8, 0.9], "eps": 1e-6}})").beta1, 0.8);
  EXPECT_EQ(optimizer(R"({"type": "SGD", "params": {"lr": 0.5}})").momentum, 0);
  EXPECT_EQ(optimizer(R"({"type": "SGD", "params": {"momentum": 0.5, "nesterov": true}})").nesterov, true);
  const auto absent = [](const std::string& block) {
    return run("{\"train_batch_size\": 8, \"optimizer\": " + block + "}").not_built;
  };
  EXPECT_THAT(absent(R"({"type": "Lion"})"), Contains("optimizer.type"));
  EXPECT_THAT(absent(R"({"type": "Adam", "params": {"adam_w_mode": false}})"), IsEmpty());
  EXPECT_THAT(absent(R"({"type": "Adam", "params": {"adam_w_mode": false, "weight_decay": 0.1}})"),
              Contains("optimizer.params.adam_w_mode"));
}

TEST_F(DeepSpeed, SchedulersAreTheirNamesakes) {
  const auto schedule = [](const std::string& block) {
    return run("{\"train_batch_size\": 8, \"scheduler\": " + block + "}").options.schedule;
  };
  EXPECT_EQ(schedule(R"({"type": "WarmupLR"})").warmup_steps, 1000U);
  EXPECT_EQ(schedule(R"({"type": "WarmupLR", "params": {"warmup_num_steps": 1}})").warmup_steps, 1U);  // 0: tests/refusals
  const auto decay = schedule(R"({"type": "WarmupDecayLR", "params": {"total_num_steps": 90, "warmup_num_steps": 1e1,
    "warmup_max_lr": 0.1, "warmup_min_lr": 0.01, "warmup_type": "linear", "last_batch_iteration": -1}})");
  EXPECT_EQ(decay.total_steps, 90U);
  EXPECT_EQ(decay.warmup_steps, 10U);
  EXPECT_EQ(decay.warmup_max_lr, 0.1);
  EXPECT_EQ(decay.min_lr, 0.01);
  EXPECT_EQ(decay.warmup_kind, optim::WarmupKind::linear);
  const auto cycle = schedule(R"({"type": "OneCycle", "params": {"cycle_min_lr": 0.1, "cycle_max_lr": 0.2,
    "cycle_first_step_size": 7, "cycle_second_stair_count": 2, "cycle_momentum": false}})");
  EXPECT_EQ(cycle.kind, optim::ScheduleKind::OneCycle);
  EXPECT_EQ(cycle.cycle_max_lr, 0.2);
  EXPECT_EQ(cycle.cycle_first_step_size, 7U);
  EXPECT_EQ(cycle.cycle_second_stair_count, 2U);
  EXPECT_FALSE(cycle.cycle_momentum);
  EXPECT_THAT(run("{\"train_batch_size\": 8, \"scheduler\": {\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": 0.1, "
                  "\"cycle_max_lr\": 0.2, \"cycle_momentum\": false, \"cycle_max_mom\": 0.99}}}")
                  .notes,
              Contains(HasSubstr("cycle_max_mom = 0.99: no effect: cycle_momentum = false")));
}

/// DeepSpeed's default warm-up of 1000 steps fits into a decay of 1000 steps, but not into one of 999.
TEST_F(DeepSpeed, ADecayMayBeAsLongAsItsDefaultWarmUp) {
  const auto decay = [](const char* steps) {
    return std::string(R"({"train_batch_size": 8, "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": )") +
           steps + "}}}";
  };
  EXPECT_THAT(refusal(decay("999")), HasSubstr("needs the parameter warmup_num_steps"));
  for (const char* const steps : {"1000", "1001"}) {
    ASSERT_EQ(refusal(decay(steps)), "accepted") << steps;
    EXPECT_EQ(run(decay(steps)).options.schedule.warmup_steps, 1000U);
  }
}

TEST_F(DeepSpeed, WhatTheSchedulerOverrulesIsNotedAndNotSet) {
  const auto with = [](const std::string& optimizer, const std::string& scheduler) {
    return run("{\"train_batch_size\": 8, \"optimizer\": " + optimizer + ",\n\"scheduler\": " + scheduler + "}");
  };
  const std::string adam = R"({"type": "AdamW", "params": {"lr": 0.01, "betas": [0.8, 0.99]}})",
                    sgd = R"({"type": "SGD", "params": {"lr": 0.5}})",
                    cycle = R"({"type": "OneCycle", "params": {"cycle_min_lr": 0.1, "cycle_max_lr": 0.2, )";
  const Invocation cycled = with(adam, cycle + R"("decay_step_size": 5}})");
  EXPECT_EQ(value(cycled, "optimizer.lr"), "0.001");
  EXPECT_EQ(value(cycled, "optimizer.beta1"), "0.9");
  EXPECT_EQ(value(cycled, "optimizer.beta2"), "0.95");
  EXPECT_EQ(value(cycled, "schedule.decay_step_size"), "0");
  const std::string of_cycle = ": no effect: schedule.kind = OneCycle";
  EXPECT_THAT(cycled.notes,
              testing::IsSupersetOf(
                  {"ds.json:1: optimizer.params.lr = 0.01" + of_cycle,
                   "ds.json:1: optimizer.params.betas[0] = 0.8" + of_cycle + " and schedule.cycle_momentum = true",
                   "ds.json:1: optimizer.params.betas[1] = 0.99" + of_cycle + " and schedule.cycle_momentum = true",
                   std::string("ds.json:2: scheduler.params.decay_step_size = 5: no effect: schedule.decay_lr_rate = 0 and "
                               "schedule.decay_mom_rate = 0")}));
  EXPECT_NO_THROW(run(R"({"train_batch_size": 8})", 1, print(cycled.options))) << "it is printed as a deck of the same run";
  EXPECT_EQ(value(with(R"({"type": "AdamW"})", cycle + R"("cycle_min_mom": 0.7}})"), "optimizer.beta2"), "0.95");
  EXPECT_EQ(value(with(adam, cycle + R"("cycle_momentum": false}})"), "optimizer.beta1"), "0.8");
  const Invocation of_sgd = with(sgd, cycle + R"("cycle_max_mom": 0.95}})");
  EXPECT_EQ(value(of_sgd, "schedule.cycle_max_mom"), "0.9");
  EXPECT_THAT(of_sgd.notes, Contains("ds.json:2: scheduler.params.cycle_max_mom = 0.95: no effect: optimizer.kind = sgd"));
  EXPECT_EQ(value(with(sgd, cycle + R"("cycle_momentum": false, "cycle_max_mom": 0.95}})"), "schedule.cycle_momentum"),
            "true");

  const Invocation warmed = with(adam, R"({"type": "WarmupLR", "params": {"warmup_max_lr": 0.002}})");
  EXPECT_EQ(value(warmed, "optimizer.lr"), "0.001");
  EXPECT_EQ(value(warmed, "optimizer.beta1"), "0.8");
  EXPECT_THAT(warmed.notes, Contains("ds.json:1: optimizer.params.lr = 0.01: no effect: schedule.warmup_max_lr = 0.002"));
  EXPECT_EQ(value(with(adam, R"({"type": "WarmupLR"})"), "optimizer.lr"), "0.01");
  const Invocation decayed =
      with(adam, R"({"type": "WarmupDecayLR", "params": {"total_num_steps": 90, "warmup_num_steps": 10}})");
  EXPECT_EQ(value(decayed, "optimizer.lr"), "0.001");
  EXPECT_THAT(decayed.notes, Contains("ds.json:1: optimizer.params.lr = 0.01: no effect: schedule.kind = WarmupDecayLR"));

  EXPECT_THAT(refusal("{\"train_batch_size\": 8,\n\"scheduler\": " + cycle + R"("cycle_momentum": false}}})", 1,
                      "optimizer.lr = 0.01"),
              testing::StartsWith("a.cfg:1: optimizer.lr = 0.01 has no effect with schedule.kind = OneCycle"));
}

TEST_F(DeepSpeed, PrecisionAndLossScale) {
  const Invocation dynamic = run(R"({"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale": 0, "auto_cast": false,
    "initial_scale_power": 8, "loss_scale_window": 50, "hysteresis": 3, "consecutive_hysteresis": true, "min_loss_scale": 2}})");
  EXPECT_EQ(value(dynamic, "train.dtype"), "fp16");
  EXPECT_EQ(value(dynamic, "train.loss_scale"), "dynamic");
  EXPECT_EQ(dynamic.options.loss_scale.initial_power, 8U);
  EXPECT_EQ(dynamic.options.loss_scale.window, 50U);
  EXPECT_EQ(dynamic.options.loss_scale.hysteresis, 3U);
  EXPECT_TRUE(dynamic.options.loss_scale.consecutive_hysteresis);
  EXPECT_EQ(dynamic.options.loss_scale.minimum, 2);
  const Invocation fixed = run(R"({"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale": 128, "hysteresis": 3}})");
  EXPECT_EQ(fixed.options.loss_scale.scale, 128);
  EXPECT_THAT(fixed.notes, Contains("ds.json:1: fp16.hysteresis = 3: no effect: the loss scale is fixed"));
  const std::string off = R"({"train_batch_size": 8, "fp16": {"enabled": false, "loss_scale": 128}})";
  EXPECT_EQ(value(run(off), "train.dtype"), "fp32");
  EXPECT_THAT(run(off).notes, Contains("ds.json:1: fp16.loss_scale = 128: no effect: train.dtype = fp32"));
  EXPECT_EQ(refusal(off, 1, "train.dtype = fp16"),
            "ds.json:1: fp16.enabled = false: contradicts train.dtype = fp16 in a.cfg:1");
  EXPECT_EQ(value(run(off, 1, "", {"--train.dtype=fp16"}), "train.loss_scale"), "128");
}

TEST_F(DeepSpeed, SizesInElementsBecomeOurs) {
  const Invocation run_3 = run(R"({"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": 3,
    "reduce_bucket_size": 5e5, "allgather_bucket_size": 4e5, "stage3_max_live_parameters": 1e6,
    "stage3_param_persistence_threshold": 100, "stage3_prefetch_bucket_size": 5e5}})");
  EXPECT_EQ(value(run_3, "comm.bucket_mb"), "2");
  EXPECT_EQ(value(run_3, "zero.max_live_mb"), "2") << "bf16: two bytes each";
  EXPECT_EQ(value(run_3, "zero.persist_below"), "100");
  EXPECT_EQ(value(run_3, "zero.prefetch_units"), "2") << "a block of width 128 has 198 272 parameters";
  const Invocation run_2 = run(R"({"train_batch_size": 8, "zero_optimization": {"stage": 2, "allgather_bucket_size": 1e6,
    "stage3_max_live_parameters": 1e6}})");
  EXPECT_EQ(value(run_2, "comm.bucket_mb"), "4");
  EXPECT_THAT(run_2.notes, Contains(HasSubstr("stage3_max_live_parameters = 1e6: no effect: zero.stage = 2")));
}

/// DeepSpeed's own bound of these sizes is 0 (but 1 for buckets), and min_loss_scale has none.
TEST_F(DeepSpeed, BoundsAreThoseOfDeepSpeed) {
  const Invocation zeros = run(R"({"train_batch_size": 8, "gradient_predivide_factor": 0.0, "zero_optimization": {"stage": 3,
    "sub_group_size": 0, "stage3_max_reuse_distance": 0, "stage3_max_live_parameters": 0, "stage3_prefetch_bucket_size": 5e8,
    "zero_hpz_partition_size": 0}})");
  EXPECT_EQ(value(zeros, "zero.prefetch_units"), "0");
  EXPECT_EQ(value(zeros, "zero.max_live_mb"), "auto");
  EXPECT_EQ(value(zeros, "zero.hpz_size"), "off");
  EXPECT_THAT(refusal(R"({"train_batch_size": 8, "zero_optimization": {"reduce_bucket_size": 0}})"),
              HasSubstr("reduce_bucket_size = 0"));
  EXPECT_THAT(run(R"({"train_batch_size": 8.0, "zero_optimization": {"sub_group_size": 1e18,
    "stage3_max_reuse_distance": 9223372036854775807}})")
                  .notes,
              Contains(HasSubstr("sub_group_size = 1e18: has no effect here")));
  for (const char* const none : {"0", "-1"}) {
    const Invocation scaled =
        run(std::string(R"({"train_batch_size": 8, "fp16": {"enabled": true, "min_loss_scale": )") + none + "}}");
    EXPECT_EQ(scaled.options.loss_scale.minimum, std::numeric_limits<float>::min());
    EXPECT_THAT(scaled.notes, Contains(HasSubstr("no minimum")));
    EXPECT_NO_THROW(run(R"({"train_batch_size": 8})", 1, print(scaled.options)));
  }
  EXPECT_THAT(refusal(R"({"train_batch_size": 8, "zero_optimization": {"sub_group_size": -1}})"),
              HasSubstr("sub_group_size = -1"));
}

TEST_F(DeepSpeed, HpzOfOneIsOff) {
  const auto hpz = [](const char* ranks) {
    return run(std::string(R"({"train_batch_size": 8, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": )") +
               ranks + "}}");
  };
  EXPECT_EQ(value(hpz("1"), "zero.hpz_size"), "off");
  EXPECT_EQ(value(hpz("4"), "zero.hpz_size"), "4");
}

TEST_F(DeepSpeed, OffloadAndKeptActivations) {
  const Invocation nvme = run(R"({"train_batch_size": 8, "aio": {"block_size": 262144, "queue_depth": 32},
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "/nvme", "ratio": 0.5},
    "offload_param": {"device": "cpu"}}, "activation_checkpointing": {"partition_activations": true, "number_checkpoints": 3}})",
                              1, "model.n_layer = 8");
  EXPECT_EQ(value(nvme, "offload.optimizer"), "nvme");
  EXPECT_EQ(value(nvme, "offload.params"), "cpu");
  EXPECT_EQ(value(nvme, "offload.optimizer_ratio"), "0.5");
  EXPECT_EQ(value(nvme, "nvme.dir"), "/nvme");
  EXPECT_EQ(value(nvme, "nvme.block_mb"), "0.262144");
  EXPECT_EQ(value(nvme, "nvme.queue_depth"), "32");
  EXPECT_EQ(value(nvme, "activation.partition"), "true");
  EXPECT_EQ(value(nvme, "activation.checkpoint_interval"), "3");
  EXPECT_THAT(nvme.not_built, testing::UnorderedElementsAre("activation.partition"));
  const Invocation none = run(R"({"train_batch_size": 8, "aio": {"queue_depth": 32}})");
  EXPECT_THAT(none.not_built, IsEmpty());
  EXPECT_THAT(none.notes, Contains("ds.json:1: aio.queue_depth = 32: no effect: nothing is offloaded to NVMe"));
}

TEST_F(DeepSpeed, TheLogSaysWhatBecameOfTheRest) {
  const Invocation noted =
      run("{\"train_batch_size\": 8, // all\n\"zero_optimization\": {\"contiguous_gradients\": true,\n"
          "\"overlap_comm\": \"auto\"}, \"steps_per_print\": null,\n\"compile\": {\"enabled\": false}}");
  EXPECT_THAT(noted.notes, testing::ElementsAre("ds.json:1: ignored: a comment, which JSON does not allow",
                                                "ds.json: gradient_clipping is absent: train.grad_clip = 1, the default of "
                                                "DeepSpeed 0.19 (until 0.16 it was 0: no clipping)",
                                                "ds.json: \"auto\" stands for the value of the deck or the command line, "
                                                "else for the default: zero_optimization.overlap_comm",
                                                "ds.json:2: zero_optimization.contiguous_gradients = true: has no effect "
                                                "here: gradients are always stored in one flat buffer per unit",
                                                "ds.json:3: steps_per_print = null: treated as absent",
                                                "ds.json:4: compile: is not enabled"));
  EXPECT_THAT(noted.not_built, IsEmpty());
  EXPECT_THAT(
      run(R"({"train_batch_size": 8, "bf16": {"enabled": true}})").notes,
      Contains("ds.json: communication_data_type is absent: comm.reduce_dtype = fp32, while DeepSpeed would use bf16"));
  EXPECT_EQ(run(R"({"train_batch_size": 8, "gradient_clipping": 0})").options.train.grad_clip, 0);
}

TEST_F(DeepSpeed, DeprecatedFormsAreTranslatedWithAWarning) {
  const auto zero = [](const std::string& block, const std::string& more = "") {
    return run("{\"train_batch_size\": 8,\n\"zero_optimization\": " + block + more + "}");
  };
  EXPECT_EQ(value(zero("true"), "zero.stage"), "1");
  EXPECT_EQ(zero("true").places.of("zero.stage"), "ds.json:2 (zero_optimization)");
  EXPECT_THAT(zero("true").notes, Contains("ds.json:2: zero_optimization = true: deprecated; read as \"zero_optimization\": "
                                           "{\"stage\": 1}"));
  EXPECT_EQ(value(zero("false"), "zero.stage"), "0");
  EXPECT_EQ(value(zero("true", ", \"allgather_size\": 1000000"), "comm.bucket_mb"), "4");
  EXPECT_THAT(
      zero("{}", ", \"allgather_size\": 1000000").notes,
      Contains("ds.json:2: allgather_size = 1000000: no effect: DeepSpeed reads it only with \"zero_optimization\": true"));

  const Invocation offloaded = zero(
      "{\"stage\": 3,\n\"cpu_offload\": true, \"cpu_offload_param\": true,\n"
      "\"cpu_offload_use_pin_memory\": true}");
  EXPECT_EQ(value(offloaded, "offload.optimizer"), "cpu");
  EXPECT_EQ(value(offloaded, "offload.params"), "cpu");
  EXPECT_THAT(offloaded.notes, testing::IsSupersetOf({"ds.json:3: zero_optimization.cpu_offload = true: deprecated; read as "
                                                      "\"offload_optimizer\": {\"device\": \"cpu\"}",
                                                      "ds.json:3: zero_optimization.cpu_offload_param = true: deprecated; "
                                                      "read as \"offload_param\": {\"device\": \"cpu\"}",
                                                      "ds.json:4: zero_optimization.cpu_offload_use_pin_memory = true: "
                                                      "deprecated; has no effect here: host memory is pinned "
                                                      "if a device needs it"}));
  const Invocation off = zero("{\"cpu_offload\": false}");
  EXPECT_EQ(value(off, "offload.optimizer"), "none");
  EXPECT_THAT(off.notes, Contains("ds.json:2: zero_optimization.cpu_offload = false: deprecated; nothing is offloaded"));

  const Invocation old_bf16 = run(R"({"train_batch_size": 8, "bfloat16": {"enabled": true, "check_grad_overflow": true}})");
  EXPECT_EQ(value(old_bf16, "train.dtype"), "bf16");
  EXPECT_EQ(value(old_bf16, "train.on_nan"), "skip");
  EXPECT_EQ(old_bf16.places.of("train.dtype"), "ds.json:1 (bfloat16.enabled)") << "as it is written in the file";
  EXPECT_THAT(old_bf16.notes, Contains("ds.json:1: bfloat16: deprecated; read as \"bf16\""));
  EXPECT_THAT(zero("{\"stage3_gather_fp16_weights_on_model_save\": true}").notes,
              Contains(HasSubstr("deprecated; read as \"stage3_gather_16bit_weights_on_model_save\"")));
}

/// DeepSpeed's fields have these names, and those with stage3_ are aliases.
TEST_F(DeepSpeed, NamesWithoutStage3MeanTheSame) {
  const auto zero = [](const std::string& more) {
    return "{\"train_batch_size\": 8, \"zero_optimization\": {\"stage\": 3,\n" + more + "}}";
  };
  const Invocation named = run(zero(R"("max_live_parameters": 1e6, "prefetch_bucket_size": 5e5,
    "param_persistence_threshold": 1000, "max_reuse_distance": 1e6, "gather_16bit_weights_on_model_save": true,
    "module_granularity_threshold": 0, "use_all_reduce_for_fetch_params": false, "allgather_sequential": false)"));
  EXPECT_EQ(value(named, "zero.max_live_mb"), "4");
  EXPECT_EQ(value(named, "zero.persist_below"), "1000");
  EXPECT_EQ(value(named, "zero.prefetch_units"), "2");
  EXPECT_EQ(named.places.of("zero.max_live_mb"), "ds.json:2 (zero_optimization.max_live_parameters)");
  EXPECT_THAT(run(zero(R"("model_persistence_threshold": 10)")).not_built,
              Contains("zero_optimization.stage3_model_persistence_threshold"));
  EXPECT_EQ(refusal(zero("\"max_live_parameters\": 5,\n\"stage3_max_live_parameters\": 5")),
            "ds.json:2: zero_optimization.max_live_parameters = 5: is given together with "
            "zero_optimization.stage3_max_live_parameters; remove one of the two");
  EXPECT_THAT(refusal(zero(R"("partition_stream_chunk_size": 5)")), HasSubstr("unknown key")) << "has one name";
}

TEST_F(DeepSpeed, WhatChangesNoTrainingStopsNoRun) {
  const Invocation idle = run(
      "{\"train_batch_size\": 8,\n\"flops_profiler\": {\"enabled\": true, \"profile_step\": 5},\n"
      "\"pipeline\": {\"stages\": \"auto\"},\n\"checkpoint\": {\"use_node_local_storage\": true},\n"
      "\"tensorboard\": {\"enabled\": true, \"output_path\": \"x\"}, \"timers\": {\"throughput\": {\"enabled\": true}}}");
  EXPECT_THAT(idle.not_built, IsEmpty());
  EXPECT_THAT(idle.deepspeed_absent, IsEmpty());
  EXPECT_THAT(idle.notes,
              testing::IsSupersetOf(
                  {"ds.json:2: flops_profiler: has no effect here: the log has the share of the peak that a step reaches",
                   "ds.json:3: pipeline: has no effect here: DeepSpeed uses it only for a PipelineModule",
                   "ds.json:4: checkpoint.use_node_local_storage = true: has no effect here: all ranks write one file, in "
                   "checkpoint.dir",
                   "ds.json:5: tensorboard: has no effect here: metrics.jsonl in output.dir has the loss and the rate of "
                   "every step",
                   "ds.json:5: timers: has no effect here: the trace has the time of every part of a step"}));
  EXPECT_EQ(refusal("{\"train_batch_size\": 8,\n\"flops_profiler\": 3}"),
            "ds.json:2: flops_profiler = 3: is a number; allowed: a block { }");
}

TEST_F(DeepSpeed, KeysThatBeginWithAnUnderscoreAreComments) {
  const Invocation run_1 =
      run("{\"_comment\": \"for two nodes\",\n\"train_batch_size\": 8,\n\"_read_the_docs\": {\"at\": [1, {\"stage\": 2}]},\n"
          "\"zero_optimization\": {\"_stage\": 3, \"stage\": 1}}");
  EXPECT_EQ(value(run_1, "zero.stage"), "1");
  const std::string comment = ": taken for a comment: its name begins with _";
  EXPECT_THAT(run_1.notes, testing::IsSupersetOf({"ds.json:1: _comment = \"for two nodes\"" + comment,
                                                  "ds.json:3: _read_the_docs" + comment,
                                                  "ds.json:4: zero_optimization._stage = 3" + comment}));
}

TEST_F(DeepSpeed, WhatIsNotBuiltIsNamedByADryRun) {
  const std::string json =
      R"({"train_batch_size": 8, "sequence_parallel_size": 2, "activation_checkpointing": {"partition_activations": true}})";
  EXPECT_THAT(run(json).not_built, testing::UnorderedElementsAre("activation.partition", "sequence_parallel_size"));
}

TEST_F(DeepSpeed, EveryCommandThatTakesOptionsTakesIt) {
  std::ofstream("ds.json") << R"({"train_batch_size": 8, "steps_per_print": 3})";
  const std::vector<const char*> words = {"--deepspeed=ds.json"};
  EXPECT_EQ(parse({.name = "eval", .summary = "", .arguments = {}}, 1, words.data()).options.train.log_every, 3U);
  const CommandSpec info = {.name = "info", .summary = "", .arguments = {}, .options = false};
  EXPECT_THROW(parse(info, 1, words.data()), Error);
  EXPECT_THAT(help({.name = "train", .summary = ""}), HasSubstr("--deepspeed "));
  EXPECT_THAT(help(info), Not(HasSubstr("--deepspeed")));
}

}  // namespace of_deepspeed_test
}  // namespace shoal::config
