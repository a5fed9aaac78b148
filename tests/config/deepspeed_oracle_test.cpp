// SPDX-License-Identifier: Apache-2.0
// Compares the meaning of DeepSpeed configurations with what DeepSpeed 0.19.8 makes of them on 1, 2, 4 and 8 ranks: of a few
// in tests/config/deepspeed, and of all in shared/oracles/ds-configs if that folder exists.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "shoal/base/error.hpp"
#include "shoal/config/options.hpp"
#include "shoal/config/table.hpp"
#include "support/shared_data.hpp"

namespace shoal::config {
namespace of_deepspeed_oracle_test {

namespace fs = std::filesystem;
using Json = nlohmann::json;

Invocation run(const fs::path& file, int ranks) {
  const std::string path = file;
  const std::vector<const char*> words = {"--deepspeed", path.c_str(), "--dry-run"};
  Invocation invocation = parse({.name = "train", .summary = ""}, static_cast<int>(words.size()), words.data());
  validate(invocation, ranks);
  return invocation;
}

void expect_optimizer(const Options& o, const Json& meaning) {
  if (meaning["optimizer"].is_null()) return;
  const Json params = meaning["optimizer_params"];
  EXPECT_EQ(o.optimizer.kind, optim::OptimizerKind::adamw);
  EXPECT_EQ(o.optimizer.lr, params.value("lr", 1e-3));
  EXPECT_EQ(o.optimizer.epsilon, params.value("eps", 1e-8));
  EXPECT_EQ(o.optimizer.weight_decay, params.value("weight_decay", 0.0));
  const auto betas = params.value("betas", std::vector<double>{0.9, 0.999});
  EXPECT_EQ(o.optimizer.beta1, betas[0]);
  EXPECT_EQ(o.optimizer.beta2, betas[1]);
}

void expect_schedule(const Options& o, const Json& meaning) {
  if (meaning["scheduler"].is_null()) {
    EXPECT_EQ(o.schedule.kind, optim::ScheduleKind::constant);
    return;
  }
  EXPECT_EQ(name_of(o.schedule.kind), meaning["scheduler"]);
  const Json params = meaning["scheduler_params"];
  EXPECT_EQ(o.schedule.warmup_steps, params.value("warmup_num_steps", 1000U));
  EXPECT_EQ(o.schedule.min_lr, params.value("warmup_min_lr", 0.0));
  EXPECT_EQ(o.schedule.warmup_max_lr, params.value("warmup_max_lr", -1.0));
}

/// Returns true if the file's text gives `key` a number. The files have comments and trailing commas, which Json refuses.
bool gives_number(const std::string& text, const std::string& key) {
  const std::size_t at = text.find('"' + key + '"');
  if (at == std::string::npos) return false;
  const std::size_t value = text.find_first_not_of(": \n", at + key.size() + 2);
  return value != std::string::npos && std::isdigit(static_cast<unsigned char>(text[value])) != 0;
}

void expect_meaning(const Options& o, const Json& meaning, const std::string& written) {
  const auto text = [&](const char* option) { return value_text(*find(option), o); };
  const auto device = [](const Json& value) { return value.is_null() ? "none" : value.get<std::string>(); };
  EXPECT_EQ(o.zero.stage, meaning["stage"]);
  EXPECT_EQ(text("offload.optimizer"), device(meaning["offload_optimizer"]));
  EXPECT_EQ(text("offload.params"), device(meaning["offload_param"]));
  EXPECT_EQ(text("zero.hpz_size"), meaning["hpz"] == 1 ? "off" : meaning["hpz"].dump());
  EXPECT_EQ(text("zero.qwz"), meaning["quantized_weights"] == true ? "8" : "off");
  EXPECT_EQ(text("zero.qgz"), meaning["quantized_gradients"] == true ? "4" : "off");
  EXPECT_EQ(o.train.dtype, meaning["fp16"] == true ? DType::f16 : meaning["bf16"] == true ? DType::bf16 : DType::f32);
  EXPECT_EQ(o.train.grad_clip, meaning["gradient_clipping"]);
  EXPECT_EQ(o.loss_scale.scale, meaning["loss_scale"]);
  EXPECT_EQ(o.loss_scale.initial_power, meaning["initial_scale_power"]);
  EXPECT_EQ(o.loss_scale.window, meaning["loss_scale_window"]);
  EXPECT_EQ(o.loss_scale.hysteresis, meaning["hysteresis"]);
  EXPECT_EQ(o.loss_scale.consecutive_hysteresis, meaning["consecutive_hysteresis"]);
  EXPECT_EQ(o.loss_scale.minimum, meaning["min_loss_scale"]);
  if (!meaning["steps_per_print"].is_null()) {
    EXPECT_EQ(o.train.log_every, meaning["steps_per_print"]);
  }
  // The size of buckets changes no result, so the program's own default is used unless the file gives a size.
  if (gives_number(written, "reduce_bucket_size")) {
    EXPECT_EQ(o.comm.bucket_mb, 4e-6 * meaning["reduce_bucket_size"].get<double>());
  }
  expect_optimizer(o, meaning);
  expect_schedule(o, meaning);
}

void expect_batch(const Options& o, const Json& batch, int ranks) {
  EXPECT_EQ(o.batch.global, batch[0]);
  EXPECT_EQ(o.batch.micro, batch[1]);
  EXPECT_EQ(o.batch.global / o.batch.micro / static_cast<std::size_t>(ranks), batch[2]);
}

/// Returns true for the configurations that DeepSpeed accepts and this program refuses: one in which keys would be ignored,
/// and one that asks for parameters in memory of the host and for a second copy of them on the device.
bool refused_on_purpose(const std::string& file) {
  return file == "lenient/zeropp_keys_at_top.json" || file == "valid/everything.json";
}

bool is_invalid(const Json& config, int ranks) {
  if (config["kind"] != "invalid") return config["deepspeed"][std::to_string(ranks)].contains("rejects");
  const Json worlds = config.value("invalid_for_worlds", Json());
  return worlds.is_null() || std::find(worlds.begin(), worlds.end(), ranks) != worlds.end();
}

void expect_as_deepspeed(const fs::path& folder, const Json& config, int ranks) {
  const std::string file = config["file"];
  SCOPED_TRACE(file + " on " + std::to_string(ranks) + " ranks");
  std::ifstream stream(folder / file);
  const std::string written{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  try {
    const Invocation invocation = run(folder / file, ranks);
    EXPECT_FALSE(is_invalid(config, ranks) || refused_on_purpose(file)) << "accepted";
    const Json deepspeed = config["deepspeed"][std::to_string(ranks)];
    if (deepspeed.contains("batch")) expect_batch(invocation.options, deepspeed["batch"], ranks);
    if (config.contains("meaning")) expect_meaning(invocation.options, config["meaning"], written);
    if (config["kind"] == "lenient" && file != "lenient/float_batch.json") {
      EXPECT_THAT(invocation.notes, testing::Not(testing::IsEmpty())) << "read over in silence";
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bad_input);
    EXPECT_THAT(error.what(), testing::HasSubstr(fs::path(file).filename()));
    EXPECT_TRUE(is_invalid(config, ranks) || refused_on_purpose(file)) << error.what();
  }
}

void walk(const fs::path& folder, std::size_t at_least) {
  const Json index = Json::parse(std::ifstream(folder / "index.json"));
  EXPECT_GE(index["configs"].size(), at_least);
  for (const Json& config : index["configs"]) {
    for (const int ranks : {1, 2, 4, 8}) expect_as_deepspeed(folder, config, ranks);
  }
}

TEST(DeepSpeedOracle, AFewConfigurationsMeanWhatDeepSpeedMakesOfThem) {
  walk(test::source_tree() / "tests/config/deepspeed", 5);
}

TEST(DeepSpeedOracle, AllConfigurationsMeanWhatDeepSpeedMakesOfThem) {
  const fs::path oracle = test::shared_data("oracles/ds-configs");
  SHOAL_NEED(oracle / "index.json");
  walk(oracle, 39);
}

}  // namespace of_deepspeed_oracle_test
}  // namespace shoal::config
