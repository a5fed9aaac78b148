// SPDX-License-Identifier: Apache-2.0
// Pipelines side by side: the data-parallel ranks of a stage reduce gradients and gather parameters together, at fixed
// places of their list (stages 2 and 3 of ZeRO). Messages between stages and collectives within them come to their ends
// together, whenever each of them is complete ([Note: lists do not starve], pipeline/buffers.hpp).
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <tuple>
#include <utility>

#include "machine.hpp"
#include "shapes.hpp"
#include "shoal/pipeline/program.hpp"

namespace shoal::pipeline {
namespace of_grid_test {

/// An operation of several ranks: a message, or a collective of a stage. It is complete when all of them have started it.
using Name = std::tuple<int, int, int, std::uint32_t>;  // kind; then (part, pipeline, turn), or (stage, number, 0)

/// What a rank does with an operation.
struct Event {
  bool starts = false;  ///< otherwise it waits for it
  Name operation;
  int ranks = 2;  ///< of the operation
};

/// Which collectives are made, and when.
struct Collectives {
  std::size_t prefetch = 1;  ///< gathers for a pass start so many passes earlier
  bool overlap = true;       ///< a reduction is awaited when the next backward pass begins, otherwise at once
};

Name operation_of(const Border& border, int d) {
  return {border.kind == Action::Kind::forward ? 0 : 1, border.part, d, border.turn};
}

/// The events of rank d of a stage.
std::deque<Event> events_of(const Program& program, int d, int data_ranks, const Collectives& how) {
  std::deque<Event> events;
  const auto collective = [&](bool starts, int kind, std::size_t number) {
    events.push_back({starts, {kind, program.shape.stage, static_cast<int>(number), 0}, data_ranks});
  };
  const auto start = [&](const Call& call) { events.push_back({true, operation_of(call.border, d)}); };
  const auto wait = [&](const Border& border) { events.push_back({false, operation_of(border, d)}); };
  constexpr int gathers = 2, reductions = 3;
  std::map<std::pair<Action::Kind, std::size_t>, Border> sent_from;  // by send buffer
  std::size_t gathered = 0, reduced = 0, awaited = 0;
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    for (const Call& call : step.before) start(call);
    if (step.in && program.shape.stages > 1) wait(*border_read(program.shape, step.action));
    if (step.out && step.out->sent) {
      const std::pair buffer(step.out->kind, step.out->buffer);
      if (const auto before = sent_from.find(buffer); before != sent_from.end()) wait(before->second);
      sent_from[buffer] = *border_made(program.shape, step.action);
    }
    while (gathered < std::min(program.steps.size(), i + 1 + how.prefetch)) collective(true, gathers, gathered++);
    collective(false, gathers, i);
    if (step.action.kind == Action::Kind::forward) continue;
    while (awaited < reduced) collective(false, reductions, awaited++);
    collective(true, reductions, reduced++);
    if (!how.overlap) collective(false, reductions, awaited++);
  }
  while (awaited < reduced) collective(false, reductions, awaited++);
  for (const Call& call : program.after) start(call);
  return events;
}

/// When a rank goes on.
enum class Progress {
  at_once,   ///< after a start, at once
  in_queue,  ///< when what it started is complete, as on a queue that carries out one operation after another
};

/// Returns the number of ranks that do not come to their ends.
std::size_t stuck(std::vector<std::deque<Event>> ranks, Progress progress, unsigned seed) {
  std::mt19937 random(seed);
  std::map<Name, int> started;
  std::vector<bool> in_queue(ranks.size(), false);  // a start of this rank is not complete
  const auto complete = [&](const Event& event) { return started[event.operation] == event.ranks; };
  const auto moves = [&](std::size_t r) {
    std::deque<Event>& events = ranks[r];
    if (events.empty()) return false;
    const Event event = events.front();
    if (event.starts && !in_queue[r]) {
      ++started[event.operation];
      in_queue[r] = progress == Progress::in_queue;
      if (in_queue[r]) return true;
    } else if (!complete(event)) {
      return false;
    }
    in_queue[r] = false;
    events.pop_front();
    return true;
  };
  std::vector<std::size_t> order(ranks.size());
  for (std::size_t r = 0; r < order.size(); ++r) order[r] = r;
  for (bool moved = true; std::exchange(moved, false);) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t r : order) {
      for (std::size_t most = random() % 2 == 0 ? 1 : ~std::size_t{0}; most > 0 && moves(r); --most) moved = true;
    }
  }
  return static_cast<std::size_t>(std::count_if(ranks.begin(), ranks.end(), [](const auto& left) { return !left.empty(); }));
}

/// By stage and then by data-parallel rank.
std::vector<std::deque<Event>> grid(const std::vector<Program>& programs, int data_ranks, const Collectives& how) {
  std::vector<std::deque<Event>> ranks;
  for (const Program& program : programs) {
    for (int d = 0; d < data_ranks; ++d) ranks.push_back(events_of(program, d, data_ranks, how));
  }
  return ranks;
}

std::vector<Program> programs_of(Schedule schedule, const ScheduleShape& shape, Progress progress) {
  const Lists lists = lists_of(schedule, shape);
  return test::programs_of(lists, shape, buffers_of(lists, shape),
                           progress == Progress::at_once ? test::Messages::rendezvous : test::Messages::blocking);
}

TEST(PipelinesSideBySide, ComeToTheirEndsWithCollectives) {
  unsigned seed = 0;
  test::for_all({4, 3, 8}, [&](const ScheduleRow& row, const ScheduleShape& shape) {
    for (const Progress progress : {Progress::at_once, Progress::in_queue}) {
      const std::vector<Program> programs = programs_of(row.value, shape, progress);
      for (const int data_ranks : {2, 3}) {
        for (const Collectives& how : {Collectives{0, false}, Collectives{1, true}, Collectives{3, true}}) {
          ASSERT_EQ(stuck(grid(programs, data_ranks, how), progress, ++seed), 0U)
              << data_ranks << " data-parallel ranks, prefetch " << how.prefetch << ", seed " << seed;
        }
      }
    }
  });
}

TEST(PipelinesSideBySide, OrdersOfEventsMakeNoDifference) {
  for (const Progress progress : {Progress::at_once, Progress::in_queue}) {
    const std::vector<Program> programs = programs_of(Schedule::interleaved, {3, 0, 2, 9}, progress);
    for (unsigned seed = 0; seed < 100; ++seed) ASSERT_EQ(stuck(grid(programs, 3, {}), progress, seed), 0U) << seed;
  }
}

/// What the argument needs: that all ranks of a stage have one list.
TEST(PipelinesSideBySide, WaitForEverIfARankGathersInAnotherOrder) {
  const std::vector<Program> programs = programs_of(Schedule::one_f_one_b, {2, 0, 1, 4}, Progress::at_once);
  std::vector<std::deque<Event>> ranks = grid(programs, 2, {0, false});
  ASSERT_EQ(stuck(ranks, Progress::at_once, 1), 0U);
  for (Event& event : ranks[1]) {  // it gathers for pass 2 when the other rank of its stage gathers for pass 1
    auto& [kind, stage, number, turn] = event.operation;
    if (kind == 2 && (number == 1 || number == 2)) number = 3 - number;
  }
  EXPECT_EQ(stuck(ranks, Progress::at_once, 1), 4U) << "and the other stage misses what they would send";
}

}  // namespace of_grid_test
}  // namespace shoal::pipeline
