// SPDX-License-Identifier: Apache-2.0
// Stages on several ranks compute what one rank computes alone, for every schedule, in small and large messages, with delays
// that differ from rank to rank.
#include "shoal/pipeline/runner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>

#include "hashing_stage.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/device/memory.hpp"
#include "support/mpi_main.hpp"

namespace shoal::pipeline {
namespace of_runner_test {

using test::HashingStage;
using test::HashModel;

constexpr std::size_t small = 512, large = std::size_t{1} << 20U;  // bytes; MPI sends large ones by rendezvous

/// The stages of a pipeline over this many ranks; if there are more ranks, several pipelines work side by side.
comm::Communicator& group_of(int stages) {
  shoal::test::world().make_groups(shoal::test::comm_options(), {1, stages});
  return shoal::test::world().pipeline();
}

/// A runner with its memory.
struct Pipeline {
  Pipeline(Schedule schedule, const ScheduleShape& all, std::size_t border_bytes)
      : group(group_of(all.stages)),
        shape{all.stages, group.rank(), all.parts, all.turns, all.skip},
        memory([&](Memory& taken_from) {
          runner.emplace(taken_from.counting() ? nullptr : &group, lists_of(schedule, shape), shape, border_bytes,
                         taken_from);
        }),
        model{parts_of_model(shape), 0, border_bytes / sizeof(std::uint64_t)} {}
  ~Pipeline() { runner.reset(); }

  unsigned seed() const {
    return static_cast<unsigned>(shoal::test::world().rank()) * 977 + static_cast<unsigned>(model.step);
  }
  void train() {
    ++model.step;
    HashingStage stage(model, shape, seed());
    runner->train(stage);
    check(stage, shape.turns, true);
  }
  void evaluate(std::size_t turns) {
    ++model.step;
    HashingStage stage(model, shape, seed(), false);
    runner->evaluate(turns, stage);
    check(stage, turns, false);
  }
  void check(const HashingStage& stage, std::size_t turns, bool trained) const {
    const bool first = shape.stage == 0, last = shape.stage + 1 == shape.stages;
    ASSERT_EQ(stage.ends().size(), (first && trained) || last ? turns : 0);
    for (const auto& [turn, ends] : stage.ends()) {
      const test::Ends right = expected(model, turn, shape.skip);
      if (last) {
        ASSERT_EQ(ends.last, right.last) << "activations of turn " << turn;
      }
      if (first && trained) {
        ASSERT_EQ(ends.first, right.first) << "gradients of turn " << turn;
      }
    }
  }

  comm::Communicator& group;
  ScheduleShape shape;
  std::optional<Runner> runner;
  device::DeviceMemory memory;
  HashModel model;
};

void expect_right_results(Schedule schedule, const ScheduleShape& shape, std::size_t border_bytes) {
  SCOPED_TRACE(text(row_of(schedule).name, ", ", shape.stages, " stages, ", shape.parts, " parts, ", shape.turns, " turns, ",
                    border_bytes, " bytes", shape.skip ? ", a skip connection" : ""));
  Pipeline pipeline(schedule, shape, border_bytes);
  pipeline.train();
  pipeline.evaluate(shape.turns + 3);
  pipeline.train();
}

/// Calls check(schedule, shape) for what is possible on these stages.
template <typename Check>
void for_all(int stages, const std::vector<std::size_t>& turns, Check check) {
  for (const ScheduleRow& row : schedules) {
    if (stages > 1 && !row.several_stages) continue;
    for (int parts = 1; parts <= (row.several_parts ? 3 : 1); ++parts) {
      for (const std::size_t count : turns) {
        if (row.whole_groups && count % static_cast<std::size_t>(stages) != 0) continue;
        for (const bool skip : {false, true}) {
          check(row.value, ScheduleShape{stages, 0, parts, count, skip});
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

int ranks() { return shoal::test::world().size(); }

/// `interleaved` needs multiples of the number of stages.
TEST(Stages, ComputeWhatOneRankComputes) {
  const std::vector<std::size_t> turns =
      ranks() == 3 ? std::vector<std::size_t>{1, 2, 3, 6} : std::vector<std::size_t>{1, 2, 4, 8};
  for_all(ranks(), turns,
          [](Schedule schedule, const ScheduleShape& shape) { expect_right_results(schedule, shape, small); });
}

TEST(Stages, SendLargeBorders) {
  for_all(ranks(), {ranks() == 3 ? std::size_t{6} : std::size_t{4}}, [](Schedule schedule, const ScheduleShape& shape) {
    Pipeline pipeline(schedule, shape, large);
    pipeline.train();
    pipeline.train();
  });
}

SHOAL_RUN_IF(Stages, OfTwoPipelinesWorkSideBySide, ranks == 4);
TEST(Stages, OfTwoPipelinesWorkSideBySide) {
  expect_right_results(Schedule::interleaved, {2, 0, 2, 4}, small);
  expect_right_results(Schedule::gpipe, {2, 0, 3, 7, true}, small);
}

TEST(Stages, TakeWhatWasCounted) {
  for_all(ranks(), {6}, [](Schedule schedule, const ScheduleShape& shape) {
    const Pipeline pipeline(schedule, shape, small);
    Memory counting(device::images());
    const Runner counted(nullptr, lists_of(schedule, shape), pipeline.shape, small, counting);
    EXPECT_EQ(counting.taken(), pipeline.memory.taken());
    EXPECT_EQ(counting.taken().total(), small * counted.buffers().total());
  });
}

SHOAL_RUN_IF(Stages, AreTraced, ranks == 2);
TEST(Stages, AreTraced) {
  /// The last stage is slow, so the first one waits for gradients. Each action has beaten since the last one ended.
  class Slow : public HashingStage {
   public:
    using HashingStage::HashingStage;
    void delay() override {
      using Clock = std::chrono::steady_clock;
      const std::chrono::nanoseconds silence(heartbeat::silence_ns());
      if (ended_) {
        EXPECT_LT(silence, Clock::now() - *ended_);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ended_ = Clock::now();
    }

   private:
    std::optional<std::chrono::steady_clock::time_point> ended_;
  };
  Pipeline pipeline(Schedule::interleaved, {2, 0, 2, 2}, small);
  trace::start(trace::Level::comm, 1000);
  trace::set_step(7);
  Slow slow(pipeline.model, pipeline.shape, 1);
  HashingStage fast(pipeline.model, pipeline.shape, 1);
  pipeline.runner->train(pipeline.shape.stage == 1 ? slow : fast);
  trace::set_step(0);
  const std::vector<trace::Event> events = trace::drain();
  trace::stop();

  const std::vector<Action> actions = interleaved(pipeline.shape);
  std::vector<trace::Event> phases, waits;
  for (const trace::Event& event : events) {
    if (event.kind == static_cast<std::uint16_t>(trace::Kind::phase)) phases.push_back(event);
    if (event.kind == static_cast<std::uint16_t>(trace::Kind::wait)) waits.push_back(event);
  }
  const auto name = [](const trace::Event& event) { return trace::names()[static_cast<std::size_t>(event.name)]; };
  ASSERT_EQ(phases.size(), actions.size());
  for (std::size_t i = 0; i < actions.size(); ++i) {
    EXPECT_EQ(name(phases[i]), actions[i].kind == Action::Kind::forward ? "forward" : "backward");
    EXPECT_EQ(phases[i].micro, static_cast<std::int16_t>(100 + actions[i].turn));
    EXPECT_EQ(phases[i].unit, 10 * part_of_model(pipeline.shape, actions[i].part));
    EXPECT_EQ(phases[i].step, 7);
  }
  std::int64_t waited_ns = 0;
  for (const trace::Event& wait : waits) {
    if (name(wait) == "receive") waited_ns += wait.duration_ns;
  }
  if (pipeline.shape.stage == 0) {
    EXPECT_GT(waited_ns, 0);
  }
}

SHOAL_RUN_IF(Stages, AreTracedWithoutNumbersThatDoNotFit, ranks == 1);
TEST(Stages, AreTracedWithoutNumbersThatDoNotFit) {
  class Many : public HashingStage {
   public:
    using HashingStage::HashingStage;
    std::size_t micro_batch(std::size_t turn) const override { return 32766 + turn; }
  };
  Pipeline pipeline(Schedule::depth_first, {1, 0, 1, 3}, small);
  trace::start(trace::Level::steps, 1000);
  Many stage(pipeline.model, pipeline.shape, 1);
  pipeline.runner->train(stage);
  std::vector<int> numbers;
  for (const trace::Event& event : trace::drain()) {
    if (event.kind == static_cast<std::uint16_t>(trace::Kind::phase)) numbers.push_back(event.micro);
  }
  trace::stop();
  EXPECT_EQ(numbers, (std::vector<int>{32766, 32766, 32767, 32767, -1, -1}));
}

}  // namespace of_runner_test
}  // namespace shoal::pipeline
