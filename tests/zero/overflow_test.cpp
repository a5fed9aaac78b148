// SPDX-License-Identifier: Apache-2.0
// An overflow of fp16 gradients on one rank, in one unit: all ranks detect it in the same step and skip the update, and no
// state changes.
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "engine_harness.hpp"
#include "shoal/device/queue.hpp"
#include "shoal/optim/loss_scale.hpp"

namespace shoal::zero::test {
namespace of_overflow_test {

constexpr std::size_t length = 8, sequences = 2, micro_batches = 4;
constexpr std::size_t symbols = 17;

EngineOptions options(int stage) {
  EngineOptions o;
  o.model = {.n_layer = 2, .n_head = 2, .n_embd = 32, .block_size = length, .vocab_size = symbols, .init_from = ""};
  o.dtype = DType::f16;
  o.capacity = {.sequences = sequences, .length = length};
  o.zero.stage = stage;
  o.gradients.bucket_elements = 4096;
  o.micro_batches = micro_batches;
  return o;
}

/// A run with the trainer's order of a step. Steps differ only in their tokens.
class Training {
 public:
  explicit Training(int stage) : engine_(options(stage)), scaler_({.initial_power = 8, .hysteresis = 1}) {
    engine_->initialize(3);
  }

  using Change = std::function<void(Engine&)>;
  /// Calls `before` before each micro-batch, and `after` after the last one, before the norm. Returns the norm.
  Norm step(const Change& before = {}, const Change& after = {}) {
    Engine& engine = *engine_;
    const std::uint64_t waits = device::waits();
    engine.scale_losses(scaler_.scale());
    const AccumulationPlan& accumulation = engine.accumulation();
    for (std::size_t turn = 0; turn < accumulation.turns(); ++turn) {
      const std::size_t m = accumulation.micro_batch_of_turn(turn, EngineOfAll::world().rank());
      if (before) before(engine);
      engine.forward(0, turn, tokens(m));
      engine.backward(0, turn);
    }
    engine.finish_gradients();
    engine.scale_losses(scaler_.scale());
    if (after) after(engine);
    engine.start_gradient_gather();
    engine.measure();
    const Norm norm = engine.norm();
    const bool overflow = !std::isfinite(norm.value);
    EXPECT_TRUE(scaler_.update(overflow));
    if (overflow) {
      engine.discard_gradients();
    } else {
      engine.update(norm, {++updates_, 1e-3, 0.9, 0.95, 1.0F});
      engine.publish();
    }
    EXPECT_EQ(device::waits(), waits + 1) << "in a step the host waits for the device once";
    return norm;
  }

  /// TiedCopies the loss scale of a run whose step was skipped.
  void take_scale_of(const Training& other) { scaler_ = other.scaler_; }
  const optim::LossScaler& scaler() const { return scaler_; }
  EngineOfAll& engine() { return engine_; }
  std::int64_t updates() const { return updates_; }

 private:
  model::MicroBatch tokens(std::size_t m) {
    inputs_.resize(sequences * length);
    targets_.resize(sequences * length);
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const std::size_t position = (static_cast<std::size_t>(updates_) * micro_batches + m) * inputs_.size() + i;
      inputs_[i] = static_cast<std::int32_t>(position * position % symbols);
      targets_[i] = static_cast<std::int32_t>((position + 1) * (position + 1) % symbols);
    }
    return {sequences,
            length,
            inputs_,
            targets_,
            static_cast<std::uint32_t>(updates_),
            static_cast<std::uint32_t>(m * sequences)};
  }

  EngineOfAll engine_;
  optim::LossScaler scaler_;
  std::int64_t updates_ = 0;
  std::vector<std::int32_t> inputs_, targets_;
};

class Overflow : public testing::TestWithParam<int> {
 protected:
  Training run_{GetParam()}, never_{GetParam()};

  void SetUp() override {
    for (Training* const run : {&run_, &never_}) {
      for (int step = 0; step < 2; ++step) ASSERT_TRUE(std::isfinite(run->step().value));
    }
  }

  /// Makes a step with the overflow, then one without it, and compares with a run that has had no overflow.
  void expect_no_trace(const Training::Change& before, const Training::Change& after, int unit) {
    const std::vector<std::byte> states = run_.engine().states();
    const double scale = run_.scaler().scale();
    const Norm norm = run_.step(before, after);
    EXPECT_EQ(extremes(std::isfinite(norm.value) ? 1 : 0), std::pair(0.0, 0.0)) << "a rank took no notice";
    EXPECT_EQ(extremes(norm.non_finite_unit), std::pair(double(norm.non_finite_unit), double(norm.non_finite_unit)));
    if (unit >= 0) {
      EXPECT_EQ(norm.non_finite_unit, unit);
    }
    EXPECT_EQ(extremes(run_.scaler().scale()), std::pair(scale / 2, scale / 2));
    EXPECT_EQ(extremes(run_.engine().states() == states ? 1 : 0), std::pair(1.0, 1.0)) << "a state has changed";
    EXPECT_EQ(run_.updates(), never_.updates());
    never_.take_scale_of(run_);
    EXPECT_TRUE(std::isfinite(run_.step().value)) << "what overflowed is still there";
    never_.step();
    EXPECT_EQ(extremes(run_.engine().states() == never_.engine().states() ? 1 : 0), std::pair(1.0, 1.0));
  }
};

TEST_P(Overflow, OfOneValueInOneUnitOnOneRank) {
  const int ranks = EngineOfAll::world().size(), units = static_cast<int>(run_.engine()->units().size());
  int places = 0;
  for (int unit = 0; unit < units; ++unit) {
    const int rank = (unit + 1) % ranks;  // so that each rank is used
    const Range shard = shard_of(run_.engine()->units()[static_cast<std::size_t>(unit)].elements, rank, ranks);
    if (shard.empty()) continue;
    SCOPED_TRACE(testing::Message() << "unit " << unit << ", rank " << rank);
    ++places;
    const float value = unit % 2 == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
    expect_no_trace(
        {},
        [&](Engine& engine) {
          if (EngineOfAll::world().rank() != rank) return;
          const Span<std::byte> last = engine.gradient_shard(unit, {shard.end - 1, shard.end});
          const auto bytes = std::bit_cast<std::array<std::byte, sizeof(float)>>(value);
          std::copy(bytes.begin(), bytes.end(), last.begin());
        },
        unit);
  }
  EXPECT_GE(places, units - 1);
}

TEST_P(Overflow, OfTheBackwardOfOneRank) {
  for (int rank = 0; rank < EngineOfAll::world().size(); ++rank) {
    SCOPED_TRACE(testing::Message() << "rank " << rank);
    expect_no_trace(
        [&](Engine& engine) {
          if (EngineOfAll::world().rank() == rank) engine.scale_losses(0x1p100);  // the largest fp16 number is 65504
        },
        {}, -1);
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, Overflow, testing::Values(0, 1, 2, 3));

}  // namespace of_overflow_test
}  // namespace shoal::zero::test
