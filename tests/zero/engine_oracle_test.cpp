// SPDX-License-Identifier: Apache-2.0
// Ten steps of a tiny GPT-2 on several ranks with accumulation, in every stage, compared with PyTorch's
// DistributedDataParallel (gpt_step_a.h5, dp) and with DeepSpeed's own engine (zero_engine_a.json). The tolerances are those
// that the makers of these files suggest.
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "engine_harness.hpp"
#include "support/oracle.hpp"

namespace shoal::zero::test {
namespace of_engine_oracle_test {

using Json = nlohmann::json;

class EngineOracle : public testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path folder = shoal::test::shared_data("oracles/gpt-step");
    SHOAL_NEED(folder / "gpt_step_a.h5");
    oracle_ = std::make_unique<shoal::test::Hdf5>(folder / "gpt_step_a.h5");
    config_ = Json::parse(std::ifstream(folder / "gpt_step_a.json")).at("config");
    zero_engine_ = Json::parse(std::ifstream(folder / "zero_engine_a.json"));
    inputs_ = oracle_->dataset<std::int32_t>("tokens/x");
    targets_ = oracle_->dataset<std::int32_t>("tokens/y");
  }

  static int ranks() { return EngineOfAll::world().size(); }

  EngineOptions options(int stage, std::size_t accumulation, bool decay_1d) const {
    EngineOptions o;
    o.model.n_layer = config_.at("n_layer");
    o.model.n_head = config_.at("n_head");
    o.model.n_embd = config_.at("n_embd");
    o.model.block_size = config_.at("block");
    o.model.vocab_size = config_.at("vocab");
    o.micro_batches = static_cast<std::size_t>(ranks()) * accumulation;
    o.capacity = {.sequences = config_.at("batch").get<std::size_t>() / o.micro_batches, .length = o.model.block_size};
    o.optimizer.epsilon = config_.at("eps");
    o.optimizer.weight_decay = config_.at("weight_decay");
    o.optimizer.decay_1d = decay_1d;
    o.zero.stage = stage;
    o.gradients.bucket_elements = 4096;
    o.grad_clip = config_.at("clip");
    return o;
  }

  void fill(Engine& engine) const {
    for (const NamedSlice& slice : engine.states().parameter_slices(States::Which::kept)) {
      const std::vector<float> initial = oracle_->dataset<float>("init/" + name_of(slice));
      for (std::size_t i = 0; i < slice.values.size(); ++i) slice.values[i] = initial.at(slice.range.begin + i);
    }
    engine.rebuild_parameters();
  }
  static std::string name_of(const NamedSlice& slice) { return slice.dataset.substr(std::string("/parameters/").size()); }

  struct Step {
    std::vector<double> losses;  ///< of all micro-batches
    double loss, norm;
  };
  /// Runs one step. at_norm is called when the step's gradient is complete.
  Step take(EngineOfAll& engine, std::size_t step, const EngineOptions& o, const std::function<void()>& at_norm) const {
    const AccumulationPlan& accumulation = engine->accumulation();
    const std::size_t rows = o.capacity.sequences * o.model.block_size;
    Step taken{std::vector<double>(o.micro_batches), 0, 0};
    for (std::size_t turn = 0; turn < accumulation.turns(); ++turn) {
      const std::size_t m = accumulation.micro_batch_of_turn(turn, EngineOfAll::world().rank());
      const std::size_t begin = (step * o.micro_batches + m) * rows;
      const model::MicroBatch batch = {o.capacity.sequences,
                                       o.model.block_size,
                                       Span<const std::int32_t>(inputs_).subspan(begin, rows),
                                       Span<const std::int32_t>(targets_).subspan(begin, rows),
                                       static_cast<std::uint32_t>(step),
                                       static_cast<std::uint32_t>(m * o.capacity.sequences)};
      engine->forward(0, turn, batch);
      engine->backward(0, turn);
    }
    engine->finish_gradients();
    if (at_norm) at_norm();
    engine->start_gradient_gather();
    engine->measure();
    for (std::size_t turn = 0; turn < accumulation.turns(); ++turn) {
      const std::size_t m = accumulation.micro_batch_of_turn(turn, EngineOfAll::world().rank());
      taken.losses[m] = engine->loss(turn) / static_cast<double>(rows);
    }
    EngineOfAll::world().all_reduce(Span<double>(taken.losses), comm::Reduce::sum).wait();
    for (const double loss : taken.losses) taken.loss += loss / static_cast<double>(o.micro_batches);
    const Norm norm = engine->norm();
    taken.norm = norm.value;
    const auto& betas = config_.at("betas");
    engine->update(norm, {static_cast<std::int64_t>(step + 1), config_.at("lr"), betas.at(0), betas.at(1), 1.0F});
    engine->publish();
    return taken;
  }

  /// Compares this rank's shard of the gradient, the mean over all ranks and micro-batches.
  void expect_gradients(EngineOfAll& engine, const std::string& group) const {
    std::size_t compared = 0;
    for (std::size_t u = 0; u < engine->units().size(); ++u) {
      const Range shard = engine->states().layout(static_cast<int>(u)).shard;
      for (const model::Parameter& p : engine->units()[u].parameters) {
        const Range own = intersection(shard, {p.offset, p.offset + p.elements()});
        if (own.empty()) continue;
        const auto expected = oracle_->dataset<float>(group + "/grads_step1/" + p.name);
        float largest = 0;
        for (const float e : expected) largest = std::max(largest, std::abs(e));
        const Span<std::byte> bytes = engine->gradient_shard(static_cast<int>(u), own);
        const auto* const g = reinterpret_cast<const float*>(bytes.data());
        for (std::size_t i = 0; i < own.size(); ++i, ++compared) {
          EXPECT_NEAR(g[i], expected[own.begin - p.offset + i], 1e-5 * largest + 1e-8) << p.name << ", " << i;
        }
      }
    }
    EXPECT_GT(extremes(static_cast<double>(compared)).first, 0);
  }

  /// Leaves out the key part of the bias of q, k, v: its gradient consists of rounding errors, which Adam scales up.
  void expect_parameters(EngineOfAll& engine, const std::string& group) const {
    engine->wait_for_parameters();
    const std::size_t width = config_.at("n_embd");
    for (const NamedSlice& slice : engine->states().parameter_slices(States::Which::own)) {
      const auto expected = oracle_->dataset<float>(group + "/params_step10/" + name_of(slice));
      const bool key_bias = slice.dataset.ends_with("attn.c_attn.bias");
      for (std::size_t i = 0; i < slice.values.size(); ++i) {
        const std::size_t at = slice.range.begin + i;
        if (key_bias && at >= width && at < 2 * width) continue;
        EXPECT_NEAR(slice.values[i], expected[at], 1e-5) << slice.dataset << ", element " << at;
      }
    }
  }

  std::unique_ptr<shoal::test::Hdf5> oracle_;
  Json config_, zero_engine_;
  std::vector<std::int32_t> inputs_, targets_;
};

TEST_F(EngineOracle, EveryStageIsDistributedDataParallel) {
  std::size_t cases = 0;
  for (const Json& dp : config_.at("dp")) {
    if (dp.at(0) != ranks()) continue;
    const std::size_t accumulation = dp.at(1);
    const std::string group = "dp/ranks" + dp.at(0).dump() + "_accum" + dp.at(1).dump();
    const auto losses = oracle_->dataset<double>(group + "/losses"), norms = oracle_->dataset<double>(group + "/grad_norms"),
               micro = oracle_->dataset<double>(group + "/micro_losses");
    for (int way = 0; way < 8; ++way, ++cases) {
      const int stage = way / 2;
      const auto tied = way % 2 == 0 ? model::TiedGradient::joined : model::TiedGradient::apart;
      SCOPED_TRACE(testing::Message() << group << ", stage " << stage << ", " << shoal::name_of(tied));
      EngineOptions o = options(stage, accumulation, false);
      o.model.tied_gradient = tied;
      EngineOfAll engine(o);
      fill(*engine);
      for (std::size_t step = 0; step < losses.size(); ++step) {
        const Step taken = take(engine, step, o, [&] {
          if (step == 0) expect_gradients(engine, group);
        });
        EXPECT_NEAR(taken.loss, losses[step], 1e-5) << "step " << step;
        EXPECT_NEAR(taken.norm, norms[step], 1e-5 * norms[step]) << "step " << step;
        for (std::size_t m = 0; m < o.micro_batches; ++m) {
          EXPECT_NEAR(taken.losses[m], micro[step * o.micro_batches + m], 1e-5) << "step " << step << ", micro-batch " << m;
        }
      }
      expect_parameters(engine, group);
    }
  }
  EXPECT_EQ(cases, 8U) << "of these ranks the oracle has one case";
}

SHOAL_RUN_IF(EngineOracle, EveryStageIsDeepSpeeds, ranks == 2);  // as DeepSpeed's engine was run
TEST_F(EngineOracle, EveryStageIsDeepSpeeds) {
  ASSERT_EQ(zero_engine_.at("ranks"), ranks());
  std::size_t cases = 0;
  for (const auto& [stage, theirs] : zero_engine_.at("stages").items()) {
    SCOPED_TRACE("stage " + stage);
    const EngineOptions o = options(std::stoi(stage), zero_engine_.at("accumulation"), true);
    EngineOfAll engine(o);
    fill(*engine);
    for (std::size_t step = 0; step < theirs.at("losses").size(); ++step, ++cases) {
      const Step taken = take(engine, step, o, {});
      EXPECT_NEAR(taken.loss, theirs.at("losses").at(step).get<double>(), 5e-6) << "step " << step;
      if (!theirs.contains("grad_norms")) continue;  // stage 0 reports none
      const double norm = theirs.at("grad_norms").at(step);
      EXPECT_NEAR(taken.norm, norm, 1e-5 * norm) << "step " << step;
    }
  }
  EXPECT_GE(cases, 40U);
}

}  // namespace of_engine_oracle_test
}  // namespace shoal::zero::test
