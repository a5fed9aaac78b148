// SPDX-License-Identifier: Apache-2.0
// The estimates must be equal to those of DeepSpeed 0.19.8 (shared/oracles/memory-estimators), to the byte.
#include "shoal/plan/deepspeed_estimate.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "shoal/model/model.hpp"
#include "support/shared_data.hpp"

namespace shoal::plan {
namespace of_deepspeed_estimate_test {

using Json = nlohmann::json;

class Oracle : public testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path oracle = test::shared_data("oracles/memory-estimators/memory_estimates.json");
    SHOAL_NEED(oracle);
    std::ifstream file(oracle);
    figures_ = Json::parse(file);
  }
  Json figures_;
};

TEST_F(Oracle, ModelsAreCountedAsDeepSpeedCountsThem) {
  ASSERT_FALSE(figures_["models"].empty());
  for (const auto& [name, wanted] : figures_["models"].items()) {
    model::ModelOptions model;
    model.vocab_size = wanted["vocab"];
    model.block_size = wanted["block"];
    model.n_layer = wanted["n_layer"];
    model.n_embd = wanted["n_embd"];
    const DeepSpeedModel counted = deepspeed_model(model::layout(model));
    EXPECT_EQ(counted.total_params, wanted["total_params"]) << name;
    EXPECT_EQ(counted.largest_layer_params, wanted["largest_layer_params"]) << name;
  }
}

TEST_F(Oracle, EveryEstimateIsTheSame) {
  ASSERT_GT(figures_["rows"].size(), 100U);
  for (const Json& row : figures_["rows"]) {
    const DeepSpeedModel model = {row["total_params"], row["largest_layer_params"]};
    const DeepSpeedCluster cluster = {row["gpus_per_node"], row["nodes"], row["buffer_factor"]};
    const bool offload = row["offload_optimizer"];
    ASSERT_TRUE(row["stage"] == 2 || row["stage"] == 3) << row;
    const DeepSpeedEstimate estimate =
        row["stage"] == 2 ? deepspeed_zero2(model, cluster, offload)
                          : deepspeed_zero3(model, cluster, {offload, row["offload_param"], row["zero_init"]});
    EXPECT_EQ(estimate.gpu_bytes, row["gpu_bytes"].get<std::size_t>()) << row;
    EXPECT_EQ(estimate.cpu_bytes, row["cpu_bytes"].get<std::size_t>()) << row;
  }
}

TEST(DeepSpeedEstimate, OfNumbersThatCanBeCheckedByHand) {
  // 1000 parameters on 2 nodes of 4 GPUs: 2 x 1000 + 18 x 1000 / 8. Stage 3, largest layer 100: 4 x 100 + 18 x 1000 / 8.
  const DeepSpeedModel model = {1000, 100};
  const DeepSpeedCluster cluster = {4, 2, 1.5};
  EXPECT_EQ(deepspeed_zero2(model, cluster, false).gpu_bytes, 4250U);
  EXPECT_EQ(deepspeed_zero2(model, cluster, true).cpu_bytes, 48000U);  // 1000 x max(4 x 8, 16) x 1.5
  EXPECT_EQ(deepspeed_zero3(model, cluster, {}).gpu_bytes, 2650U);
  EXPECT_EQ(deepspeed_zero3(model, cluster, {}).cpu_bytes, 2400U);  // 100 x 4 x 4 x 1.5
}

}  // namespace of_deepspeed_estimate_test
}  // namespace shoal::plan
