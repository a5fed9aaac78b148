// SPDX-License-Identifier: Apache-2.0
// A rank that computes the model in several parts, in the order of any schedule for one stage, has the states, losses and
// norms of one that computes it as a whole, bit for bit.
#include <algorithm>
#include <map>
#include <tuple>

#include "engine_harness.hpp"
#include "shoal/pipeline/schedule.hpp"
#include "shoal/zero/slots.hpp"
#include "small_gpt.hpp"

namespace shoal::zero::test {
namespace {

using pipeline::Schedule;

EngineOptions options(int stage, std::size_t micro_batches) {
  EngineOptions o = small_gpt(stage);
  o.micro_batches = micro_batches;
  return o;
}

/// What crosses the borders of parts: memory for each turn.
class Borders {
 public:
  Borders(std::size_t borders, std::size_t turns, std::size_t bytes)
      : turns_(turns),
        bytes_(bytes),
        memory_([&](Memory& memory) { all_ = memory.take<std::byte>(Kind::buffers, borders * turns * bytes, "borders"); }) {}
  /// Of the border before the part; null before the first part.
  void* before(std::size_t part, std::size_t turn) {
    return part == 0 ? nullptr : all_.data() + ((part - 1) * turns_ + turn) * bytes_;
  }
  /// Null after the last part.
  void* after(std::size_t part, std::size_t turn) {
    return (part + 1) * turns_ * bytes_ > all_.size() ? nullptr : before(part + 1, turn);
  }

 private:
  std::size_t turns_, bytes_;
  Span<std::byte> all_;
  device::DeviceMemory memory_;
};

/// The two borders of a part, and with a direct connection what passes the other parts by: from the first to the last one.
struct Flows {
  Borders outputs, gradients, skipped, skipped_gradients;
  std::size_t parts;
  bool skips;

  Flows(std::size_t count, bool direct, std::size_t turns, std::size_t bytes)
      : outputs(count - 1, turns, bytes),
        gradients(count - 1, turns, bytes),
        skipped(1, turns, bytes),
        skipped_gradients(1, turns, bytes),
        parts(count),
        skips(direct && count > 1) {}
  model::Flow forward(std::size_t part, std::size_t turn, bool trains = true) {
    model::Flow flow{outputs.before(part, turn), outputs.after(part, turn)};
    if (skips && part == 0) flow.skip_out = skipped.before(1, turn);
    if (skips && part + 1 == parts) flow.skip_in = skipped.before(1, turn);
    if (skips && part + 1 == parts && trains) flow.skip_out = skipped_gradients.before(1, turn);
    return flow;
  }
  model::Flow backward(std::size_t part, std::size_t turn) {
    model::Flow flow{gradients.after(part, turn), gradients.before(part, turn)};
    if (skips && part == 0) flow.skip_in = skipped_gradients.before(1, turn);
    return flow;
  }
};

/// What a run of two steps and an evaluation leaves.
struct Results {
  std::vector<double> losses, norms;
  double evaluated = 0;
  std::vector<std::vector<float>> parameters;
  bool operator==(const Results&) const = default;
};

/// units: of the model.
std::vector<model::Part> parts_of(std::size_t units, const std::vector<std::size_t>& balance,
                                  const std::vector<std::size_t>& slots, std::size_t most_whole) {
  std::vector<model::Part> parts;
  for (std::size_t k = 0, unit = 0; k < balance.size(); ++k) {
    const std::size_t begin = unit;
    unit = k + 1 == balance.size() ? units : unit + balance[k] + (k == 0 ? 1 : 0);
    parts.push_back({{begin, unit}, slots[k], std::min(slots[k], most_whole)});
  }
  return parts;
}

/// A turn keeps all activations if a slot for that is free.
StepOrder order_of(const std::vector<pipeline::Action>& actions, const std::vector<model::Part>& parts) {
  StepOrder order;
  std::vector<std::map<std::uint32_t, bool>> whole(parts.size());  // by part and turn, between forward and backward
  for (const pipeline::Action& action : actions) {
    auto& own = whole[action.part];
    const bool is_backward = action.kind == pipeline::Action::Kind::backward;
    if (!is_backward) {
      const auto in_use = std::count_if(own.begin(), own.end(), [](const auto& turn) { return turn.second; });
      own[action.turn] = static_cast<std::size_t>(in_use) < parts[action.part].whole_slots;
    }
    order.push_back({action.part, is_backward, own.at(action.turn)});
    if (is_backward) own.erase(action.turn);
  }
  return order;
}

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
                        Case{Schedule::layer_by_layer, {1, 1, 2}, 0, 0}, Case{Schedule::layer_by_layer, {3, 1}, 2, 2},
                        Case{Schedule::layer_by_layer, {layers}, 6, 0}, Case{Schedule::interleaved, {1, 2, 1}, 1, 1}}) {
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

}  // namespace
}  // namespace shoal::zero::test
