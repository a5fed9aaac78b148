// SPDX-License-Identifier: Apache-2.0
// Every list comes to its end with the buffers of buffers_of(), whenever messages are complete, and no buffer is written
// while it is in use.
#include "shoal/pipeline/program.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "machine.hpp"
#include "shapes.hpp"

namespace shoal::pipeline {
namespace of_program_test {

using test::Messages;
constexpr std::array every_way = {Messages::eager, Messages::rendezvous, Messages::one_by_one, Messages::blocking};
constexpr test::Most most = test::fewer_if_sanitized({8, 3, 32});

std::string problem_of(const Lists& lists, const ScheduleShape& shape, const std::vector<Buffers>& buffers) {
  std::vector<Program> programs;
  for (const Messages how : every_way) {
    if (how == Messages::eager || how == Messages::one_by_one) programs = test::programs_of(lists, shape, buffers, how);
    const std::string problem = test::Machine(programs, how).run(static_cast<unsigned>(shape.turns));
    if (!problem.empty()) return text(problem, ", messages of kind ", static_cast<int>(how));
  }
  return {};
}

TEST(Programs, OfAllListsComeToTheirEnds) {
  test::for_all_with_skips(most, [](const ScheduleRow& row, const ScheduleShape& shape) {
    const Lists lists = lists_of(row.value, shape);
    ASSERT_EQ(problem_of(lists, shape, buffers_of(lists, shape)), "");
  });
}

TEST(Programs, EvaluationsRunInTheBuffersOfTraining) {
  test::for_all_with_skips(test::fewer_if_sanitized({8, 3, 16}), [](const ScheduleRow& row, const ScheduleShape& shape) {
    const std::vector<Buffers> buffers = buffers_of(lists_of(row.value, shape), shape);
    for (const std::size_t turns : {1, 3, 8, 17}) {
      ScheduleShape evaluation = shape;
      evaluation.turns = turns;
      ASSERT_EQ(problem_of(evaluation_lists(evaluation), evaluation, buffers), "") << turns << " turns";
    }
  });
}

TEST(Programs, OrdersOfEventsMakeNoDifference) {
  for (const auto& [schedule, shape] :
       {std::pair(Schedule::interleaved, ScheduleShape{3, 0, 3, 9}), std::pair(Schedule::gpipe, ScheduleShape{4, 0, 2, 11}),
        std::pair(Schedule::interleaved, ScheduleShape{3, 0, 3, 9, true}),
        std::pair(Schedule::one_f_one_b, ScheduleShape{4, 0, 1, 11, true})}) {
    const Lists lists = lists_of(schedule, shape);
    for (const Messages how : every_way) {
      for (unsigned seed = 0; seed < 50; ++seed) {
        test::Machine machine(test::programs_of(lists, shape, buffers_of(lists, shape), how), how);
        ASSERT_EQ(machine.run(seed), "") << seed;
      }
    }
  }
}

TEST(Programs, AreCheckedByAMachineThatFindsMistakes) {
  const ScheduleShape shape{2, 0, 2, 4};
  const Lists lists = lists_of(Schedule::interleaved, shape);
  const std::vector<Buffers> buffers = buffers_of(lists, shape);
  const auto problem_with = [&](Messages how, const auto& change) {
    std::vector<Program> programs = test::programs_of(lists, shape, buffers, how);
    change(programs);
    return test::Machine(programs, how).run(1);
  };
  // A receive into a buffer that is in use, one before its time on a queue, and a send that is never started.
  EXPECT_NE(problem_with(Messages::rendezvous,
                         [](auto& programs) {
                           for (Step& step : programs[1].steps) {
                             for (Call& call : step.before) {
                               if (!call.sends) call.place.buffer = 0;
                             }
                           }
                         }),
            "");
  EXPECT_NE(problem_with(
                Messages::one_by_one,
                [](auto& programs) {
                  std::vector<Call> receives;
                  for (Step& step : programs[0].steps) {
                    for (const Call& call : step.before) {
                      if (!call.sends && call.border.turn == 0) receives.push_back(call);
                    }
                    std::erase_if(step.before, [](const Call& call) { return !call.sends && call.border.turn == 0; });
                  }
                  programs[0].steps[0].before.insert(programs[0].steps[0].before.begin(), receives.begin(), receives.end());
                }),
            "");
  EXPECT_NE(problem_with(Messages::eager, [](auto& programs) { programs[0].steps[1].before.clear(); }), "");
}

TEST(Programs, OfSkipConnectionsAreCheckedToo) {
  const ScheduleShape shape{3, 0, 1, 6, true};
  const Lists lists = lists_of(Schedule::gpipe, shape);
  const std::vector<Buffers> buffers = buffers_of(lists, shape);
  std::vector<Program> programs = test::programs_of(lists, shape, buffers, Messages::rendezvous);
  for (Step& step : programs[2].steps) {
    for (Call& call : step.before) {
      if (call.border.skip && !call.sends) call.place.buffer = 0;
    }
  }
  EXPECT_NE(test::Machine(programs, Messages::rendezvous).run(1), "") << "activations overwrite others";
  programs = test::programs_of(lists, shape, buffers, Messages::eager);
  for (Step& step : programs[2].steps) {
    std::erase_if(step.before, [](const Call& call) { return call.border.skip && call.sends && call.border.turn == 3; });
  }
  EXPECT_NE(test::Machine(programs, Messages::eager).run(1), "") << "a gradient is missing";
}

/// The first and the last stage send each other a message per turn, which those in the middle know nothing of.
TEST(Programs, SkipConnectionsPassTheMiddleBy) {
  for (const auto& [schedule, parts] :
       {std::pair(Schedule::one_f_one_b, 1), std::pair(Schedule::gpipe, 2), std::pair(Schedule::interleaved, 2)}) {
    ScheduleShape shape{4, 0, parts, 8, true};
    const Lists lists = lists_of(schedule, shape);
    const std::vector<Buffers> buffers = buffers_of(lists, shape);
    for (shape.stage = 0; shape.stage < 4; ++shape.stage) {
      const Program program = program_of(lists, shape, buffers, Order::early);
      std::array<std::vector<std::uint32_t>, 2> sent, received;  // by kind
      const auto count = [&](const std::vector<Call>& calls) {
        for (const Call& call : calls) {
          if (!call.border.skip) continue;
          EXPECT_EQ(call.other, 3 - shape.stage);
          (call.sends ? sent : received)[call.border.kind == Action::Kind::forward ? 0 : 1].push_back(call.border.turn);
        }
      };
      for (const Step& step : program.steps) count(step.before);
      count(program.after);
      const std::vector<std::uint32_t> all = {0, 1, 2, 3, 4, 5, 6, 7}, none;
      EXPECT_EQ(sent[0], shape.stage == 0 ? all : none);
      EXPECT_EQ(received[0], shape.stage == 3 ? all : none);
      EXPECT_EQ(sent[1], shape.stage == 3 ? all : none);
      EXPECT_EQ(received[1], shape.stage == 0 ? all : none);
    }
  }
}

/// In gpipe the last stage makes the gradients of all turns before the first one reads any, so there must be room for them.
TEST(Programs, GradientsOfSkipConnectionsNeedRoom) {
  const ScheduleShape shape{3, 0, 1, 12, true};
  const Lists lists = lists_of(Schedule::gpipe, shape);
  std::vector<Buffers> buffers = buffers_of(lists, shape);
  buffers[0].skip.gradients = 12 - buffers[2].skip.sent_gradients;
  EXPECT_EQ(problem_of(lists, shape, buffers), "");
  --buffers[0].skip.gradients;
  EXPECT_THROW(program_of(lists, shape, buffers, Order::early), Error);
}

TEST(Programs, ListsThatCrossAreRefused) {
  const ScheduleShape shape{2, 0, 2, 2};
  Lists lists = lists_of(Schedule::interleaved, shape);
  const std::vector<Buffers> buffers = buffers_of(lists, shape);
  // Stage 0 wants part 2 of turn 0 before it makes part 0 of turn 0, from which it follows.
  std::swap(lists[0][0], lists[0][2]);
  EXPECT_THROW(buffers_of(lists, shape), Error);
  EXPECT_THROW(program_of(lists, shape, buffers, Order::early), Error);
}

TEST(Programs, ReceivesAreStartedAsSoonAsABufferIsFree) {
  const ScheduleShape shape{2, 1, 1, 4};  // the last of two stages, which has two buffers: F0 B0 F1 B1 ...
  const Lists lists = lists_of(Schedule::one_f_one_b, shape);
  const Program program = program_of(lists, shape, buffers_of(lists, shape), Order::early);
  const auto received_before = [&](std::size_t action) {
    std::vector<std::uint32_t> turns;
    for (const Call& call : program.steps[action].before) {
      if (!call.sends) turns.push_back(call.border.turn);
    }
    return turns;
  };
  using Turns = std::vector<std::uint32_t>;
  EXPECT_EQ(received_before(0), (Turns{0, 1}));
  EXPECT_EQ(received_before(1), Turns{});
  EXPECT_EQ(received_before(2), Turns{2});
  EXPECT_EQ(received_before(4), Turns{3});
  ASSERT_EQ(program.after.size(), 1U);
  EXPECT_TRUE(program.after[0].sends);
  EXPECT_EQ(program.after[0].border, (Border{Action::Kind::backward, 0, 3}));
}

TEST(Borders, TagsTellApartWhatIsInFlight) {
  const int parts = 12;
  std::set<int> tags;
  for (const Action::Kind kind : {Action::Kind::forward, Action::Kind::backward}) {
    for (int part = 0; part < parts; ++part) {
      for (std::uint32_t turn = 0; turn < 500; ++turn) tags.insert(tag_of({kind, part, turn}, parts));
    }
  }
  EXPECT_EQ(tags.size(), 2U * 12 * 500);
  // No neighbour sends anything to the first part forward, or to the last one backward, so these tags are free for others.
  for (std::uint32_t turn = 0; turn < 500; ++turn) {
    EXPECT_EQ(tag_of({Action::Kind::forward, parts - 1, turn, true}, parts),
              tag_of({Action::Kind::forward, 0, turn}, parts));
    EXPECT_EQ(tag_of({Action::Kind::backward, 0, turn, true}, parts),
              tag_of({Action::Kind::backward, parts - 1, turn}, parts));
  }
  EXPECT_GE(*tags.begin(), 0);
  EXPECT_LT(*tags.rbegin(), 1 << 14);
  EXPECT_LT(tag_of({Action::Kind::backward, parts - 1, ~0U}, parts), 1 << 14);
  EXPECT_LT(tag_of({Action::Kind::backward, most_parts_of_model - 1, ~0U}, most_parts_of_model), 1 << 14);
  EXPECT_THROW(tag_of({}, most_parts_of_model + 1), Error);
}

TEST(Borders, AreNamedInWords) {
  EXPECT_EQ(words_of({Action::Kind::forward, 1, 5}), "the activations of turn 5 for part 1");
  EXPECT_EQ(words_of({Action::Kind::backward, 0, 2}), "the gradients of turn 2 for part 0");
  EXPECT_EQ(words_of({Action::Kind::forward, 3, 5, true}), "the skip connection's activations of turn 5 for part 3");
}

}  // namespace of_program_test
}  // namespace shoal::pipeline
