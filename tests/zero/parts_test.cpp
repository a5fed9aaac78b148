// SPDX-License-Identifier: Apache-2.0
// A rank that computes the model in several parts, in the order of any schedule for one stage, has the states, losses and
// norms of one that computes it as a whole, bit for bit.
#include <algorithm>
#include <map>
#include <tuple>

#include "borders.hpp"
#include "engine_harness.hpp"
#include "shoal/pipeline/schedule.hpp"
#include "small_gpt.hpp"
#include "zero/slots.hpp"

namespace shoal::zero::test {
namespace of_parts_test {

using pipeline::Schedule;

EngineOptions options(int stage, std::size_t micro_batches) {
  EngineOptions o = small_gpt(stage);
  o.micro_batches = micro_batches;
  return o;
}

/// What a run of two steps and an evaluation leaves.
struct Results {
  std::vector<double> losses, norms;
  double evaluated = 0;
  std::vector<std::vector<float>> parameters;
  bool operator==(const Results&) const = default;
};

/// known: the engine knows the order of the step beforehand.
Results run(EngineOptions o, Schedule schedule, const std::vector<std::size_t>& balance, std::size_t most_whole = 1,
            bool known = false) {
  const auto ranks = static_cast<std::size_t>(EngineOfAll::world().size());
  const pipeline::ScheduleShape shape = {.parts = static_cast<int>(balance.size()), .turns = o.micro_batches / ranks};
  const std::vector<pipeline::Action> actions = pipeline::actions_of(schedule, shape);
  o.parts = parts_of(model::layout(o.model).size(), balance, pipeline::slots(actions), most_whole);
  const StepOrder order = order_of(actions, o.parts);
  if (known) o.order = order;
  EngineOfAll engine(o);
  engine->initialize(3);
  const std::size_t bytes = sequences * length * o.model.n_embd * size_of(o.dtype);
  Flows flows(balance.size(), o.model.direct, shape.turns, bytes);
  Results results;
  for (std::uint32_t step = 0; step < 2; ++step) {
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const std::size_t k = actions[i].part, turn = actions[i].turn;
      if (actions[i].kind == pipeline::Action::Kind::backward) {
        engine->backward(k, turn, flows.backward(k, turn));
        continue;
      }
      const std::size_t m = engine->accumulation().micro_batch_of_turn(turn, EngineOfAll::world().rank());
      const Tokens tokens(31 * step + m);
      engine->forward(k, turn,
                      {sequences, length, tokens.inputs, tokens.targets, step, static_cast<std::uint32_t>(m * sequences)},
                      flows.forward(k, turn), order[i].whole);
    }
    engine->finish_gradients();
    engine->start_gradient_gather();
    engine->measure();
    std::vector<double> losses(o.micro_batches, 0.0);
    for (std::size_t turn = 0; turn < shape.turns; ++turn) {
      losses[engine->accumulation().micro_batch_of_turn(turn, EngineOfAll::world().rank())] = engine->loss(turn);
    }
    EngineOfAll::world().all_reduce(Span<double>(losses), comm::Reduce::sum).wait();
    results.losses.insert(results.losses.end(), losses.begin(), losses.end());
    const Norm norm = engine->norm();
    results.norms.push_back(norm.value);
    engine->update(norm, {step + 1, 1e-2, 0.9, 0.95, 1.0F});
    engine->publish();
  }
  const Tokens tokens(5);
  for (std::size_t k = 0; k < balance.size(); ++k) {
    engine->evaluate(k, {sequences, length, tokens.inputs, tokens.targets, 0, 0}, flows.forward(k, 0, false));
  }
  results.evaluated = engine->evaluated_loss();
  engine->wait_for_parameters();
  for (std::size_t u = 0; u < engine->units().size(); ++u) {
    results.parameters.push_back(engine->states().whole_master(static_cast<int>(u)));
  }
  return results;
}

struct Case {
  Schedule schedule;
  std::vector<std::size_t> balance;
  std::size_t most_whole;
  std::int64_t interval;
};

/// (stage, type in which gradients are kept, the head has a copy of a tied embedding, a direct connection)
class PartsTest : public testing::TestWithParam<std::tuple<int, DType, bool, bool>> {};

/// Six micro-batches are three rounds.
TEST_P(PartsTest, HaveTheStatesOfTheWholeModel) {
  const auto [stage, dtype, tied, direct] = GetParam();
  EngineOptions o = options(0, 6);
  o.model.tied = tied;
  o.model.tied_gradient = model::TiedGradient::apart;
  o.model.direct = direct;
  o.gradients.dtype = dtype;
  const Results expected = run(o, Schedule::depth_first, {layers});
  o.zero.stage = stage;
  o.gradients.bucket_elements = 4096;
  for (const Case& c : {Case{Schedule::depth_first, {layers}, 1, 0}, Case{Schedule::depth_first, {1, 3}, 1, 2},
                        Case{Schedule::gpipe, {1, 1, 2}, 0, 0}, Case{Schedule::gpipe, {3, 1}, 2, 2},
                        Case{Schedule::gpipe, {layers}, 6, 0}, Case{Schedule::interleaved, {1, 2, 1}, 1, 1}}) {
    o.capacity.checkpoint_interval = c.interval;
    for (const bool known : {false, true}) {
      EXPECT_TRUE(run(o, c.schedule, c.balance, c.most_whole, known) == expected)
          << name_of(c.schedule) << ", " << c.balance.size() << " parts, whole slots " << c.most_whole;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PartsTest,
                         testing::Values(std::tuple{0, DType::f32, false, false}, std::tuple{1, DType::bf16, false, false},
                                         std::tuple{2, DType::f32, false, false}, std::tuple{3, DType::f32, false, false},
                                         std::tuple{3, DType::bf16, false, false}, std::tuple{1, DType::f32, true, false},
                                         std::tuple{3, DType::bf16, true, false}, std::tuple{0, DType::f32, false, true},
                                         std::tuple{2, DType::f32, true, true}, std::tuple{3, DType::bf16, true, true}));

TEST(SlotsTest, TheLowestFreeOneIsTaken) {
  Slots slots({{}, 4, 2});
  EXPECT_TRUE(slots.all_free());
  EXPECT_EQ(slots.take(7, true), 0U);
  EXPECT_EQ(slots.take(8, false), 2U);
  EXPECT_EQ(slots.take(9, true), 1U);
  EXPECT_EQ(slots.take(10, false), 3U);
  EXPECT_THROW(slots.take(11, true), Error);
  EXPECT_THROW(slots.take(11, false), Error);
  EXPECT_EQ(slots.release(7), 0U);
  EXPECT_THROW(slots.release(7), Error);
  EXPECT_EQ(slots.take(11, true), 0U);
  EXPECT_EQ(slots.release(8), 2U);
  EXPECT_EQ(slots.take(12, false), 2U);
  EXPECT_FALSE(slots.all_free());
  EXPECT_TRUE(slots.is_whole(1));
  EXPECT_FALSE(slots.is_whole(2));
}

TEST(EngineTest, RefusesPassesInAnotherOrderThanThatOfTheStep) {
  const std::size_t turns = 2;
  EngineOptions o = options(3, turns * static_cast<std::size_t>(EngineOfAll::world().size()));
  o.parts = {{{0, model::layout(o.model).size()}, turns, turns}};
  o.order = {{0, false, true}, {0, false, true}, {0, true, true}, {0, true, true}};
  EngineOfAll engine(o);
  engine->initialize(3);
  const Tokens tokens(1);
  const model::MicroBatch batch = {sequences, length, tokens.inputs, tokens.targets, 0, 0};
  engine->forward(0, 0, batch);
  EXPECT_THROW(engine->backward(0, 0), Error);
  EXPECT_THROW(engine->evaluate(batch), Error);
}

TEST(EngineTest, RefusesPassesThatNoSlotIsFreeFor) {
  EngineOptions o = options(0, 4 * static_cast<std::size_t>(EngineOfAll::world().size()));
  EngineOfAll engine(o);
  engine->initialize(3);
  const Tokens tokens(1);
  const model::MicroBatch batch = {sequences, length, tokens.inputs, tokens.targets, 0, 0};
  EXPECT_THROW(engine->backward(0, 0), Error);
  engine->forward(0, 0, batch);
  EXPECT_THROW(engine->forward(0, 1, batch), Error);
  EXPECT_THROW(engine->evaluate(batch), Error);
  EXPECT_THROW(engine->backward(0, 1), Error);
  engine->backward(0, 0);
  EXPECT_THROW(engine->forward(0, 1, batch, {}, false), Error) << "the only slot keeps all activations";
}

}  // namespace of_parts_test
}  // namespace shoal::zero::test
