// SPDX-License-Identifier: Apache-2.0
#include "shoal/pipeline/balance.hpp"
#include "shoal/pipeline/buffers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "shoal/base/error.hpp"
#include "shoal/pipeline/timeline.hpp"
#include "support/shared_data.hpp"

namespace shoal::pipeline {
namespace of_balance_test {

/// The largest cost of a part.
double largest_cost(const std::vector<double>& costs, const Balance& balance) {
  double largest = 0;
  auto first = costs.begin();
  for (const std::size_t blocks : balance) {
    const auto end = first + static_cast<std::ptrdiff_t>(blocks);
    largest = std::max(largest, std::accumulate(first, end, 0.0));
    first = end;
  }
  return largest;
}

/// Tries all cuts: the least largest cost, infinite if none fits; `cut` becomes the first best one in lexicographic order.
double brute_force(const std::vector<double>& costs, std::size_t parts, const Fits& fits, Balance& cut) {
  double least = std::numeric_limits<double>::infinity();
  Balance balance(parts, 1);
  const auto try_from = [&](const auto& self, std::size_t part, std::size_t first) -> void {
    if (part == parts) {
      if (first != costs.size()) return;
      const double largest = largest_cost(costs, balance);
      if (largest < least) {
        least = largest;
        cut = balance;
      }
      return;
    }
    for (std::size_t end = first + 1; end <= costs.size(); ++end) {
      if (fits && !fits(part, {first, end})) continue;
      balance[part] = end - first;
      self(self, part + 1, end);
    }
  };
  try_from(try_from, 0, 0);
  return least;
}

TEST(Balance, IsTheBestOfAllCuts) {
  std::mt19937 random(7);
  int none = 0, limited = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    const std::size_t blocks = 1 + random() % 9, parts = 1 + random() % blocks;
    std::vector<double> costs(blocks), bytes(blocks);
    for (double& cost : costs) cost = static_cast<double>(random() % 12);
    for (double& each : bytes) each = static_cast<double>(1 + random() % 9);
    // Earlier parts keep more turns, so they have room for fewer blocks.
    const double room = trial % 2 == 0 ? 1e9 : static_cast<double>(5 + random() % 60);
    const Fits fits = [&](std::size_t part, Range range) {
      const double sum = std::accumulate(bytes.begin() + static_cast<std::ptrdiff_t>(range.begin),
                                         bytes.begin() + static_cast<std::ptrdiff_t>(range.end), 0.0);
      return sum * static_cast<double>(parts - part) <= room;
    };
    Balance cut;
    const double least = brute_force(costs, parts, fits, cut);
    const std::optional<Balance> found = least_largest(costs, parts, fits);
    ASSERT_EQ(found.has_value(), !cut.empty()) << trial;
    if (found) {
      ASSERT_EQ(*found, cut) << trial;
      ASSERT_EQ(largest_cost(costs, *found), least) << trial;
    }
    none += found ? 0 : 1;
    limited += found && largest_cost(costs, *found) > largest_cost(costs, *least_largest(costs, parts)) ? 1 : 0;
  }
  EXPECT_GT(none, 50) << "cases in which nothing fits";
  EXPECT_GT(limited, 50) << "cases in which memory costs time";
}

TEST(Balance, IsTheOptimumWhereFairScaleIsNot) {
  const std::filesystem::path oracle = shoal::test::shared_data("oracles/pipe/balance.json");
  SHOAL_NEED(oracle);
  std::ifstream file(oracle);
  const nlohmann::json read = nlohmann::json::parse(file);
  int better = 0, compared = 0;
  for (const auto& row : read.at("cases")) {
    const std::vector<double> costs = row.at("cost");
    const std::optional<Balance> found = least_largest(costs, row.at("parts"));
    ASSERT_TRUE(found) << row;
    EXPECT_EQ(found->size(), row.at("parts").get<std::size_t>());
    EXPECT_EQ(std::accumulate(found->begin(), found->end(), std::size_t{0}), costs.size());
    const double largest = largest_cost(costs, *found), least = row.at("least_largest"), other = row.at("fairscale_largest");
    EXPECT_NEAR(largest, least, 1e-12 * least) << row;  // the file's sums may be added in another order
    better += largest < other * (1 - 1e-12) ? 1 : 0;
    ++compared;
  }
  EXPECT_EQ(compared, 72);
  EXPECT_EQ(better, 32);
}

TEST(Balance, GivesTheFirstPartsFewerBlocks) {
  EXPECT_EQ(least_largest(std::vector<double>(8, 1), 3), (Balance{2, 3, 3}));
  EXPECT_EQ(least_largest({1, 1, 1, 4}, 2), (Balance{3, 1}));
  EXPECT_EQ(least_largest({2, 1, 1, 1}, 4), (Balance{1, 1, 1, 1}));
  EXPECT_THROW(least_largest({1, 1}, 3), Error);
}

/// The simulated step of blocks that cost 1, of which the last one also has a head.
class StepOf {
 public:
  StepOf(Schedule schedule, const ScheduleShape& shape, double head)
      : shape_(shape), lists_(lists_of(schedule, shape)), buffers_(buffers_of(lists_, shape)), head_(head) {}
  double operator()(const Balance& balance) const {
    TimelineCosts costs;
    for (const std::size_t blocks : balance) costs.parts.push_back({1.0 * blocks, 2.0 * blocks});
    costs.parts.back().forward += 3 * head_;  // whose backward pass follows its forward pass at once
    return timeline(lists_, shape_, costs, &buffers_).step;
  }

 private:
  ScheduleShape shape_;
  Lists lists_;
  std::vector<Buffers> buffers_;
  double head_;
};

std::vector<double> costs_of(std::size_t blocks, double head) {
  std::vector<double> costs(blocks, 3);
  costs.back() += 3 * head;
  return costs;
}

template <typename Visit>
void for_each_cut(std::size_t blocks, std::size_t parts, Balance& cut, const Visit& visit) {
  if (parts == 1) {
    cut.push_back(blocks);
    visit(cut);
    cut.pop_back();
    return;
  }
  for (std::size_t first = 1; first + parts - 1 <= blocks; ++first) {
    cut.push_back(first);
    for_each_cut(blocks - first, parts - 1, cut, visit);
    cut.pop_back();
  }
}

bool any(const Balance&) { return true; }

TEST(ShortenedBalance, IsNearlyTheShortestOfAllSteps) {
  int cases = 0, shorter = 0, shortest = 0;
  for (const Schedule schedule : {Schedule::interleaved, Schedule::gpipe}) {
    for (const auto& [stages, parts] : {std::pair{2, 2}, {2, 3}, {3, 2}, {4, 2}}) {
      for (const std::size_t blocks : {8U, 9U, 12U}) {
        for (const double head : {0.0, 0.3, 1.3, 2.2, 5.4}) {
          const ScheduleShape shape{stages, 0, parts, static_cast<std::size_t>(4 * stages)};
          const StepOf step(schedule, shape, head);
          const auto all = static_cast<std::size_t>(stages * parts);
          const Balance begin = *least_largest(costs_of(blocks, head), all);
          const Balance found = shortened(begin, step, any, 100000);
          double best = step(begin);
          Balance cut;
          for_each_cut(blocks, all, cut, [&](const Balance& each) { best = std::min(best, step(each)); });
          EXPECT_LE(step(found), step(begin));
          EXPECT_LE(step(found), 1.06 * best)
              << stages << " stages, " << parts << " parts, " << blocks << " blocks, head " << head;
          EXPECT_EQ(std::accumulate(found.begin(), found.end(), std::size_t{0}), blocks);
          ++cases;
          shorter += step(found) < 0.99 * step(begin) ? 1 : 0;
          shortest += step(found) <= best * (1 + 1e-12) ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(shorter, cases / 3);
  EXPECT_GT(shortest, cases * 2 / 3);
}

/// GPT-2's head over 50257 symbols costs as much as 5.4 of its blocks.
TEST(ShortenedBalance, ALargeHeadIsOnTheStageWithFewerBlocks) {
  const ScheduleShape shape{2, 0, 2, 8};
  const StepOf step(Schedule::interleaved, shape, 5.4);
  const Balance begin = *least_largest(costs_of(12, 5.4), 4);
  EXPECT_EQ(begin, (Balance{1, 4, 6, 1}));
  const Balance found = shortened(begin, step, any, 1000);
  EXPECT_GT(found[0] + found[2], found[1] + found[3] + 2);
  EXPECT_LT(step(found), 0.95 * step(begin));
}

TEST(ShortenedBalance, TakesOnlyWhatIsPossibleAndEnds) {
  const ScheduleShape shape{2, 0, 2, 8};
  const StepOf step(Schedule::interleaved, shape, 5.4);
  const Balance begin{3, 3, 3, 3}, free = shortened(begin, step, any, 1000);
  ASSERT_GT(free[0] + free[2], 7U);
  const auto small_first_stage = [](const Balance& cut) { return cut[0] + cut[2] <= 7; };
  const Balance found = shortened(begin, step, small_first_stage, 1000);
  EXPECT_LE(found[0] + found[2], 7U);
  EXPECT_LT(step(found), step(begin));
  EXPECT_EQ(shortened(
                begin, step, [](const Balance&) { return false; }, 1000),
            begin);
  for (const std::size_t most : {1U, 2U, 5U}) {
    std::size_t calls = 0;
    const StepTime counted = [&](const Balance& cut) {
      ++calls;
      return step(cut);
    };
    shortened(begin, counted, any, most);
    EXPECT_EQ(calls, most);
  }
  EXPECT_EQ(shortened(
                {7}, [](const Balance&) { return 1.0; }, any, 1000),
            Balance{7});
}

TEST(Balance, ListsAreReadAndChecked) {
  EXPECT_FALSE(read_balance("auto", 2, 5).balance);
  EXPECT_EQ(read_balance("auto", 2, 5).problem, "");
  EXPECT_EQ(read_balance("3,2,1", 3, 6).balance, (Balance{3, 2, 1}));
  EXPECT_EQ(read_balance("6", 1, 6).balance, Balance{6});
  const auto problem = [](const char* text) { return read_balance(text, 3, 6).problem; };
  EXPECT_EQ(problem("3,3"), "names 2 parts, but there are 3");
  EXPECT_EQ(problem("3,2,2"), "adds up to 7 blocks, but the model has 6");
  EXPECT_EQ(problem("3,0,3"), "part 1 (counted from 0) has no block; each part needs at least one");
  EXPECT_EQ(problem("99,1,1"), "part 0 (counted from 0) has 99 blocks of 6");
  for (const char* const text : {"", "3,2,", ",3,3", "3;2;1", "3, 2,1", "-1,3,4", "3,2,1x", "99999999999999999999999,1,1"}) {
    EXPECT_EQ(problem(text), "is not a list of whole numbers without spaces, such as 3,2,1") << text;
  }
}

TEST(Balance, TheEndsHaveTheEmbeddingAndTheHead) {
  const std::vector<Range> units = units_of({3, 2, 1});  // units 0 to 7
  ASSERT_EQ(units.size(), 3U);
  EXPECT_EQ(units[0].begin, 0U);
  EXPECT_EQ(units[0].end, 4U);
  EXPECT_EQ(units[1].begin, 4U);
  EXPECT_EQ(units[1].end, 6U);
  EXPECT_EQ(units[2].begin, 6U);
  EXPECT_EQ(units[2].end, 8U);
}

}  // namespace of_balance_test
}  // namespace shoal::pipeline
