// SPDX-License-Identifier: Apache-2.0
// The schedule of a step is what the ranks of a run do: they compute the same uses and start the same collectives for the
// same units in the same order, and never before those have ended that the schedule waits for.
#include "shoal/zero/step_schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <ostream>
#include <string>

#include "borders.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/pipeline/schedule.hpp"
#include "shoal/zero/end_of_step.hpp"
#include "small_gpt.hpp"
#include "support/mpi_main.hpp"

namespace shoal::zero::test {
namespace of_scheduled_run_test {

using pipeline::Schedule;

comm::World& world() { return shoal::test::world(); }

/// One of a run's collectives or kernels, or what the schedule says of it.
struct Named {
  std::string name;
  int unit;
  bool operator==(const Named&) const = default;
  friend std::ostream& operator<<(std::ostream& out, const Named& n) { return out << n.name << " of unit " << n.unit; }
};
Named named(const trace::Event& event) { return {trace::names()[static_cast<std::size_t>(event.name)], event.unit}; }

// A kernel of every use of a block or the head: forward, also if it is computed again; backward; the head.
const std::string forward_kernel = "qkv", backward_kernel = "mlp_out_dw", head_kernel = "head";

Named collective_of(const StepSchedule& schedule, const StepItem& item) {
  switch (item.message) {
    case MessageKind::gather: return {"all_gather", static_cast<int>(item.number)};
    case MessageKind::reduce: return {"reduce_scatter", schedule.reduced()[item.number].last_unit};
    case MessageKind::gather_gradients: return {"all_gather", schedule.gathered_gradients()[item.number].last_unit};
    case MessageKind::publish: return {"all_gather", schedule.published()[item.number].parts.front().unit};
    case MessageKind::losses: return {"all_reduce", -1};
    case MessageKind::norm: return {"all_gather", -1};
    case MessageKind::copied_gradients:
    case MessageKind::copied_parameters: break;
  }
  return {};
}

struct Run {
  EngineOptions options;
  std::vector<pipeline::Action> actions;
  StepOrder order;  // of the actions
};

/// most_whole: slots of a part that keep all activations, at most. known: the engine knows the order of the step beforehand.
Run run_of(EngineOptions o, Schedule schedule, const std::vector<std::size_t>& balance, std::size_t most_whole = 1,
           bool known = false) {
  const auto ranks = static_cast<std::size_t>(world().size());
  const pipeline::ScheduleShape shape = {.parts = static_cast<int>(balance.size()), .turns = o.micro_batches / ranks};
  Run run{o, pipeline::actions_of(schedule, shape), {}};
  if (balance.size() > 1 || schedule != Schedule::depth_first) {
    run.options.parts = parts_of(model::layout(o.model).size(), balance, pipeline::slots(run.actions), most_whole);
  } else {
    run.options.parts = {model::Part{}};
  }
  run.order = order_of(run.actions, run.options.parts);
  if (known) run.options.order = run.order;
  return run;
}

constexpr int steps = 2;

/// The items of a gather of parameters and of two steps.
StepItems scheduled(const Run& run, StepSchedule& schedule) {
  StepItems all = schedule.publish();
  const auto add = [&](const StepItems& items) { all.insert(all.end(), items.begin(), items.end()); };
  for (int step = 0; step < steps; ++step) {
    for (const PassOfPart& pass : run.order) add(schedule.pass(pass));
    add(schedule.end_of_step());
  }
  add(schedule.wait_for_parameters());
  return all;
}

RankGroups groups_of_all(comm::Communicator* all, comm::Communicator* neighbours) {
  RankGroups groups{world().all().rank(), world().all().size(), all};
  groups.neighbours = neighbours;
  return groups;
}

/// What every run does at the end of a step.
void end_step(Engine& engine, std::size_t micro_batches, const optim::Optimizer::Step& step) {
  std::vector<double> losses(micro_batches, 0.0);
  Norm norm;
  for (const EndCall call : end_of_step) {
    switch (call) {
      case EndCall::finish_gradients: engine.finish_gradients(); break;
      case EndCall::start_gradient_gather:
        engine.start_gradient_gather();
        engine.measure();
        break;
      case EndCall::exchange_losses: world().all().all_reduce(Span<double>(losses), comm::Reduce::sum).wait(); break;
      case EndCall::exchange_norm: norm = engine.norm(); break;
      case EndCall::update: engine.update(norm, step); break;
      case EndCall::publish: engine.publish(); break;
    }
  }
}

/// The collectives of such a run on this rank, and those kernels, in the order in which they were started.
std::vector<trace::Event> traced(const Run& run) {
  const EngineOptions& o = run.options;
  Memory counting(device::images());
  const Engine counted(o, groups_of_all(nullptr, nullptr), counting);
  device::DeviceMemory memory(counting.taken());
  Engine engine(o, groups_of_all(&world().all(), &world().node()), memory);
  const std::size_t turns = engine.accumulation().turns(), bytes = sequences * length * o.model.n_embd * size_of(o.dtype);
  Flows flows(o.parts.size(), o.model.direct, turns, bytes);
  engine.initialize(3);
  engine.wait_for_parameters();
  trace::start(trace::Level::kernels, 200000);
  engine.rebuild_parameters();
  for (std::uint32_t step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < run.actions.size(); ++i) {
      const std::size_t k = run.actions[i].part, turn = run.actions[i].turn;
      if (run.order[i].backward) {
        engine.backward(k, turn, flows.backward(k, turn));
        continue;
      }
      const std::size_t m = engine.accumulation().micro_batch_of_turn(turn, world().all().rank());
      const Tokens tokens(31 * step + m);
      engine.forward(k, turn,
                     {sequences, length, tokens.inputs, tokens.targets, step, static_cast<std::uint32_t>(m * sequences)},
                     flows.forward(k, turn), run.order[i].whole);
    }
    end_step(engine, o.micro_batches, {step + 1, 1e-2, 0.9, 0.95, 1.0F});
  }
  engine.wait_for_parameters();
  std::vector<trace::Event> events = trace::drain();
  EXPECT_EQ(trace::dropped(), 0U);
  trace::stop();
  std::erase_if(events, [](const trace::Event& event) {
    const std::string name = named(event).name;
    return event.kind != static_cast<std::uint16_t>(trace::Kind::collective) && name != forward_kernel &&
           name != backward_kernel && name != head_kernel;
  });
  std::stable_sort(events.begin(), events.end(), [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
  return events;
}

/// The kernel that the use of an item has run when it ends; none for the embedding.
std::optional<Named> kernel_of(const StepSchedule& schedule, const StepItem& item) {
  const model::UseOrder& uses = schedule.uses(item.part, item.pass);
  const int unit = uses[item.number].front(), head = static_cast<int>(layers) + 1;
  if (unit == 0) return std::nullopt;
  if (unit == head) return Named{head_kernel, unit};
  const auto later = uses.begin() + static_cast<std::ptrdiff_t>(item.number) + 1;
  const bool is_last = std::find(later, uses.end(), uses[item.number]) == uses.end();
  return Named{item.pass != StepItem::Pass::forward && is_last ? backward_kernel : forward_kernel, unit};
}

void expect_as_scheduled(const Run& run) {
  StepSchedule schedule(run.options, world().size());
  const StepItems items = scheduled(run, schedule);
  const std::vector<trace::Event> events = traced(run);
  std::size_t next = 0;
  std::array<std::deque<std::size_t>, message_kinds> in_flight;  // by kind: the events of starts, oldest first
  std::int64_t awaited_until = 0;                                // the latest end among messages that were waited for
  for (const StepItem& item : items) {
    auto& of_kind = in_flight[static_cast<std::size_t>(item.message)];
    std::optional<Named> expected;
    if (item.kind == StepItem::Kind::start) expected = collective_of(schedule, item);
    if (item.kind == StepItem::Kind::compute) expected = kernel_of(schedule, item);
    if (expected) {
      // A use of a backward pass may first compute the block's activations again, and then begin its gradient. A forward
      // kernel that is passed over wrongly is missed where it is expected.
      while (next < events.size() && expected->name != forward_kernel && named(events[next]).name == forward_kernel) ++next;
      ASSERT_LT(next, events.size()) << "the run does less";
      ASSERT_EQ(named(events[next]), *expected) << "event " << next << " of " << events.size();
      EXPECT_GE(events[next].begin_ns, awaited_until) << "event " << next << " begins too early";
      if (item.kind == StepItem::Kind::start) of_kind.push_back(next);
      ++next;
    } else if (item.kind == StepItem::Kind::wait) {
      ASSERT_FALSE(of_kind.empty());
      const trace::Event& event = events[of_kind.front()];
      awaited_until = std::max(awaited_until, event.begin_ns + event.duration_ns);
      of_kind.pop_front();
    }
  }
  EXPECT_EQ(next, events.size()) << "the run does more";
  for (const auto& of_kind : in_flight) EXPECT_TRUE(of_kind.empty()) << "nothing waits for a message";
}

EngineOptions options(int stage) {
  EngineOptions o = small_gpt(stage);
  o.micro_batches = 12;  // three rounds on 2 and 4 ranks
  o.gradients.bucket_elements = 8192;
  return o;
}

/// (stage, overlap)
class ScheduledRun : public testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  static EngineOptions of_case() {
    EngineOptions o = options(std::get<0>(GetParam()));
    o.gradients.overlap = std::get<1>(GetParam());
    return o;
  }
};

TEST_P(ScheduledRun, StartsWhatIsScheduled) {
  for (const auto& [bucket, interval] : {std::pair(2048U, 0), std::pair(4096U, 2), std::pair(1U << 20U, 0)}) {
    EngineOptions o = of_case();
    o.gradients.bucket_elements = bucket;
    o.capacity.checkpoint_interval = interval;
    SCOPED_TRACE(testing::Message() << "buckets of " << bucket << ", interval " << interval);
    expect_as_scheduled(run_of(o, Schedule::depth_first, {layers}));
  }
}

TEST_P(ScheduledRun, StartsWhatIsScheduledWithATiedHead) {
  for (const auto gradient : {model::TiedGradient::joined, model::TiedGradient::apart}) {
    EngineOptions o = of_case();
    o.model.tied = true;
    o.model.tied_gradient = gradient;
    expect_as_scheduled(run_of(o, Schedule::depth_first, {layers}));
  }
}

TEST_P(ScheduledRun, StartsWhatIsScheduledWithGradientsInOtherMemory) {
  EngineOptions o = of_case();
  o.gradients.dtype = DType::bf16;
  o.zero.prefetch_units = 3;
  o.zero.persist_below = 2000;
  expect_as_scheduled(run_of(o, Schedule::depth_first, {layers}));
  o.zero.reshard_after_forward = false;
  expect_as_scheduled(run_of(o, Schedule::depth_first, {layers}));
}

TEST_P(ScheduledRun, StartsWhatIsScheduledInSeveralParts) {
  expect_as_scheduled(run_of(of_case(), Schedule::depth_first, {1, 3}));
  expect_as_scheduled(run_of(of_case(), Schedule::gpipe, {1, 1, 2}));
  expect_as_scheduled(run_of(of_case(), Schedule::gpipe, {layers}, 2));
  expect_as_scheduled(run_of(of_case(), Schedule::interleaved, {1, 2, 1}));
}

/// As a stage of a pipeline does: gathers are planned over a whole step.
TEST_P(ScheduledRun, StartsWhatIsScheduledIfTheOrderOfTheStepIsKnown) {
  for (const bool reshard : {true, false}) {
    EngineOptions o = of_case();
    o.zero.reshard_after_forward = reshard;
    expect_as_scheduled(run_of(o, Schedule::gpipe, {layers}, 2, true));
    o.zero.prefetch_units = 3;
    expect_as_scheduled(run_of(o, Schedule::gpipe, {1, 2, 1}, 1, true));
    o.capacity.checkpoint_interval = 2;
    expect_as_scheduled(run_of(o, Schedule::interleaved, {3, 1}, 0, true));
  }
}

TEST_P(ScheduledRun, StartsWhatIsScheduledWithADirectConnection) {
  for (const auto& [tied, gradient] :
       {std::pair(false, model::TiedGradient::joined), std::pair(true, model::TiedGradient::joined),
        std::pair(true, model::TiedGradient::apart)}) {
    EngineOptions o = of_case();
    o.model.direct = true;
    o.model.tied = tied;
    o.model.tied_gradient = gradient;
    expect_as_scheduled(run_of(o, Schedule::depth_first, {layers}));
    if (o.model.joins_gradients()) continue;  // head and embedding write one gradient, so they are one part
    expect_as_scheduled(run_of(o, Schedule::gpipe, {1, 2, 1}, 1, true));
  }
}

INSTANTIATE_TEST_SUITE_P(All, ScheduledRun, testing::Combine(testing::Values(0, 1, 2, 3), testing::Bool()));

SHOAL_RUN_IF(ScheduledRunWithHpz, StartsWhatIsScheduled, ranks == 4);
TEST(ScheduledRunWithHpz, StartsWhatIsScheduled) {
  world().make_groups(shoal::test::comm_options(2));
  for (const bool overlap : {true, false}) {
    EngineOptions o = options(3);
    o.zero.hpz_size = 2;
    o.gradients.overlap = overlap;
    expect_as_scheduled(run_of(o, Schedule::depth_first, {layers}));
  }
  world().make_groups(shoal::test::comm_options());
}

}  // namespace of_scheduled_run_test
}  // namespace shoal::zero::test
