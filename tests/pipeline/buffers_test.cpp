// SPDX-License-Identifier: Apache-2.0
#include "shoal/pipeline/buffers.hpp"

#include <gtest/gtest.h>

#include "shapes.hpp"
#include "shoal/pipeline/program.hpp"
#include "shoal/pipeline/timeline.hpp"

namespace shoal::pipeline {
namespace of_buffers_test {

using Counts = std::vector<std::size_t>;

/// The end of the step; infinite if the stages wait for ever.
double end(const Lists& lists, const ScheduleShape& shape, double message, const std::vector<Buffers>* buffers) {
  try {
    return timeline(lists, shape, equal_costs(shape, message), buffers).step;
  } catch (const Error&) {
    return std::numeric_limits<double>::infinity();
  }
}

std::vector<Buffers> buffers_for(Schedule schedule, const ScheduleShape& shape) {
  return buffers_of(lists_of(schedule, shape), shape);
}

TEST(Buffers, AreAsManyAsTheSchedulesNeed) {
  const std::vector<Buffers> pairs = buffers_for(Schedule::one_f_one_b, {4, 0, 1, 16});
  EXPECT_EQ(pairs[0], (Buffers{{0}, {2}, 2, 0}));
  EXPECT_EQ(pairs[1], (Buffers{{4}, {2}, 2, 2}));
  EXPECT_EQ(pairs[3], (Buffers{{2}, {0}, 0, 2}));
  const std::vector<Buffers> rounds = buffers_for(Schedule::interleaved, {2, 0, 2, 8});
  EXPECT_EQ(rounds[0], (Buffers{{0, 3}, {2, 2}, 2, 2}));
  EXPECT_EQ(rounds[1], (Buffers{{4, 2}, {2, 0}, 2, 2}));
  // The first stage makes the gradients of 16 turns while the last one still works on the part behind.
  EXPECT_EQ(buffers_for(Schedule::gpipe, {4, 0, 2, 16})[3], (Buffers{{16, 16}, {13, 0}, 2, 2}));
  EXPECT_EQ(buffers_for(Schedule::gpipe, {2, 0, 1, 1})[1], (Buffers{{1}, {0}, 0, 1}));
}

/// With messages that take as long as a forward pass, in gpipe the activations of turn m are sent from m + 1 on, and the
/// last of four stages reads them until m + 7.
TEST(Buffers, OfSkipConnectionsAreOnTheFirstAndTheLastStage) {
  const std::vector<Buffers> all = buffers_for(Schedule::gpipe, {4, 0, 1, 16, true});
  EXPECT_EQ(all[0], (Buffers{{0}, {2}, 2, 0, {0, 16, 2, 0}}));
  EXPECT_EQ(all[1], (Buffers{{16}, {2}, 2, 2, {}}));
  EXPECT_EQ(all[3], (Buffers{{16}, {0}, 0, 2, {6, 0, 0, 2}}));
  // The first stage has at most four turns between forward and backward, and so many at most are on their way.
  const std::vector<Buffers> pairs = buffers_for(Schedule::one_f_one_b, {4, 0, 1, 16, true});
  EXPECT_LE(pairs[3].skip.activations, 4U);
  EXPECT_LE(pairs[0].skip.gradients, 4U);
  // An evaluation takes four turns through the first part before the first of them comes to the last one.
  EXPECT_EQ(buffers_for(Schedule::gpipe, {4, 0, 2, 1, true})[3].skip.activations, 4U);
  EXPECT_EQ(buffers_for(Schedule::depth_first, {1, 0, 3, 8, true})[0].skip, (Buffers::Skip{1, 1, 0, 0}));
  EXPECT_EQ(buffers_for(Schedule::gpipe, {1, 0, 3, 8, true})[0].skip, (Buffers::Skip{8, 8, 0, 0}));
  EXPECT_EQ(buffers_for(Schedule::depth_first, {1, 0, 1, 8, true})[0].total(), 0U) << "one part passes nothing by";
}

TEST(Buffers, OfOneStageAreThoseOfItsList) {
  EXPECT_EQ(buffers_for(Schedule::depth_first, {1, 0, 1, 8})[0].total(), 0U);
  EXPECT_EQ(buffers_for(Schedule::depth_first, {1, 0, 3, 8})[0], (Buffers{{0, 1, 1}, {1, 1, 0}, 0, 0}));
  EXPECT_EQ(buffers_for(Schedule::gpipe, {1, 0, 3, 8})[0], (Buffers{{0, 8, 8}, {8, 8, 0}, 0, 0}));
}

TEST(Buffers, OfAnEvaluationAreFew) {
  const ScheduleShape shape{4, 0, 2, 16};
  const std::vector<Buffers> buffers = buffers_of(evaluation_lists(shape), shape);
  EXPECT_EQ(buffers[0], (Buffers{{0, 2}, {0, 0}, 2, 0}));
  EXPECT_EQ(buffers[3], (Buffers{{2, 2}, {0, 0}, 2, 0}));
}

/// Also if messages take as long as a forward pass.
TEST(Buffers, NeverDelayAStageIfPartsAreEqual) {
  test::for_all_with_skips(test::fewer_if_sanitized({8, 3, 32}), [](const ScheduleRow& row, const ScheduleShape& shape) {
    const Lists lists = lists_of(row.value, shape);
    const std::vector<Buffers> buffers = buffers_of(lists, shape);
    for (const double message : {0.0, 0.25, 1.0}) {
      ASSERT_NEAR(end(lists, shape, message, &buffers), end(lists, shape, message, nullptr), 1e-9) << message;
    }
  });
}

/// Fewer buffers of activations than slots() cannot work, wherever they are missing.
TEST(Buffers, OfActivationsAreNeeded) {
  test::for_all({4, 3, 8}, [](const ScheduleRow& row, ScheduleShape shape) {
    const Lists lists = lists_of(row.value, shape);
    std::vector<Buffers> buffers = buffers_of(lists, shape);
    for (std::size_t stage = 0; stage < lists.size(); ++stage) {
      for (std::size_t part = 0; part < static_cast<std::size_t>(shape.parts); ++part) {
        std::size_t& count = buffers[stage].activations[part];
        if (count == 0) continue;
        const std::size_t kept = std::exchange(count, slots(lists[stage])[part] - 1);
        ASSERT_EQ(end(lists, shape, 0, &buffers), std::numeric_limits<double>::infinity()) << stage << ", " << part;
        ASSERT_THROW(program_of(lists, shape, buffers, Order::early), Error);
        count = kept;
      }
    }
  });
}

/// The buffer into which the next border arrives meanwhile, if it is missing everywhere.
TEST(Buffers, OneMoreHidesMessages) {
  const auto loss = [](Schedule schedule, const ScheduleShape& shape, const auto& take) {
    const Lists lists = lists_of(schedule, shape);
    std::vector<Buffers> buffers = buffers_of(lists, shape);
    for (Buffers& of_stage : buffers) take(of_stage);
    const double message = 0.5;
    return end(lists, shape, message, &buffers) / end(lists, shape, message, nullptr) - 1;
  };
  const auto activations = [](Buffers& buffers) {
    for (std::size_t& count : buffers.activations) count -= count > 0 ? 1 : 0;
  };
  const auto gradients = [](Buffers& buffers) {
    for (std::size_t& count : buffers.gradients) count -= count > 0 ? 1 : 0;
  };
  const auto sent = [](Buffers& buffers) {
    buffers.sent_activations = std::min<std::size_t>(buffers.sent_activations, 1);
    buffers.sent_gradients = std::min<std::size_t>(buffers.sent_gradients, 1);
  };
  EXPECT_GT(loss(Schedule::one_f_one_b, {4, 0, 1, 16}, activations), 0.02);
  EXPECT_GT(loss(Schedule::interleaved, {4, 0, 2, 16}, activations), 0.09);
  EXPECT_GT(loss(Schedule::gpipe, {4, 0, 1, 16}, gradients), 0.1);
  EXPECT_GT(loss(Schedule::gpipe, {4, 0, 1, 16}, sent), 0.2);
  // Gradients that the last stage does not read for long: with two buffers the others wait, with one for ever.
  const auto two = [](Buffers& buffers) {
    for (std::size_t& count : buffers.gradients) count = std::min<std::size_t>(count, 2);
  };
  EXPECT_GT(loss(Schedule::gpipe, {4, 0, 2, 16}, two), 0.3);
  EXPECT_EQ(loss(Schedule::gpipe, {4, 0, 2, 16},
                 [&](Buffers& buffers) {
                   two(buffers);
                   sent(buffers);
                 }),
            std::numeric_limits<double>::infinity());
}

}  // namespace of_buffers_test
}  // namespace shoal::pipeline
