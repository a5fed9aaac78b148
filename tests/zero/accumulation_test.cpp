// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/accumulation.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace shoal::zero {
namespace of_accumulation_test {

/// The sum that one rank makes in a round, as an expression over the indices of micro-batches.
std::string rank_sum(const AccumulationPlan& accumulation, std::size_t round, int rank) {
  std::vector<std::string> stack(accumulation.stack(true));
  for (std::size_t micro_step = 0; micro_step < accumulation.micro_steps_per_round; ++micro_step) {
    std::size_t top = accumulation.level(micro_step);
    stack.at(top) = std::to_string(accumulation.micro_batch(round, micro_step, rank));
    for (std::size_t i = 0; i < accumulation.merges(micro_step); ++i, --top) {
      stack.at(top - 1) = "(" + stack.at(top - 1) + "+" + stack.at(top) + ")";
    }
  }
  return stack.at(0);
}

/// The tree over the ranks, low bits first.
std::string tree(std::vector<std::string> sums) {
  while (sums.size() > 1) {
    std::vector<std::string> next;
    for (std::size_t i = 0; i + 1 < sums.size(); i += 2) next.push_back("(" + sums[i] + "+" + sums[i + 1] + ")");
    sums = next;
  }
  return sums[0];
}

/// The sum of a round that is reduced once: of each rank's own sum, then over the ranks.
std::string group_sum(const AccumulationPlan& accumulation, std::size_t round) {
  std::vector<std::string> sums;
  for (int rank = 0; rank < accumulation.ranks; ++rank) sums.push_back(rank_sum(accumulation, round, rank));
  return tree(sums);
}

/// The sum of a round that is reduced after every micro-step: over the ranks, then on the stack, to which it is added from
/// another buffer.
std::string sum_of_micro_steps(const AccumulationPlan& accumulation, std::size_t round) {
  std::vector<std::string> stack(accumulation.stack(false));
  for (std::size_t micro_step = 0; micro_step < accumulation.micro_steps_per_round; ++micro_step) {
    std::vector<std::string> leaves;
    for (int rank = 0; rank < accumulation.ranks; ++rank)
      leaves.push_back(std::to_string(accumulation.micro_batch(round, micro_step, rank)));
    const std::string reduced = tree(leaves);
    std::size_t top = accumulation.level(micro_step);
    if (accumulation.merges(micro_step) == 0) stack.at(top) = reduced;
    for (std::size_t i = 0; i < accumulation.merges(micro_step); ++i, --top) {
      stack.at(top - 1) = "(" + stack.at(top - 1) + "+" + (i == 0 ? reduced : stack.at(top)) + ")";
    }
  }
  return stack.at(0);
}

TEST(AccumulationPlan, EveryMicroBatchIsComputedOnce) {
  for (const std::size_t m : {1UL, 2UL, 6UL, 8UL, 12UL, 20UL, 24UL}) {
    for (int ranks = 1; ranks <= static_cast<int>(m); ++ranks) {
      if (m % static_cast<std::size_t>(ranks) != 0) continue;
      for (const bool every_micro_step : {false, true}) {
        const AccumulationPlan accumulation(m, ranks, every_micro_step);
        EXPECT_EQ(accumulation.micro_batches(), m);
        std::set<std::size_t> seen;
        for (std::size_t round = 0; round < accumulation.rounds; ++round) {
          for (std::size_t micro_step = 0; micro_step < accumulation.micro_steps_per_round; ++micro_step) {
            for (int rank = 0; rank < ranks; ++rank) seen.insert(accumulation.micro_batch(round, micro_step, rank));
          }
        }
        EXPECT_EQ(seen.size(), m) << m << " micro-batches on " << ranks << " ranks";
        EXPECT_EQ(*seen.rbegin(), m - 1);
      }
    }
  }
}

TEST(AccumulationPlan, TheSumIsTheSameExpressionOnEveryPowerOfTwo) {
  EXPECT_EQ(group_sum(AccumulationPlan(8, 1), 0), "(((0+1)+(2+3))+((4+5)+(6+7)))");
  for (const std::size_t m : {2UL, 4UL, 6UL, 8UL, 12UL, 16UL, 20UL, 24UL}) {
    for (int ranks = 2; ranks <= 8; ranks *= 2) {
      if (m % static_cast<std::size_t>(ranks) != 0) continue;
      const AccumulationPlan one(m, 1), many(m, ranks);
      ASSERT_EQ(one.rounds, many.rounds);
      for (std::size_t round = 0; round < one.rounds; ++round) {
        EXPECT_EQ(group_sum(many, round), group_sum(one, round)) << m << " micro-batches on " << ranks << " ranks";
        EXPECT_EQ(sum_of_micro_steps(AccumulationPlan(m, ranks, true), round), group_sum(one, round));
      }
    }
  }
}

TEST(AccumulationPlan, OtherNumbersOfRanksMakeOneRound) {
  const AccumulationPlan accumulation(12, 6);
  EXPECT_EQ(accumulation.rounds, 1U);
  EXPECT_EQ(accumulation.micro_steps_per_round, 2U);
  EXPECT_EQ(rank_sum(AccumulationPlan(15, 5), 0, 1), "((3+4)+5)");
}

TEST(AccumulationPlan, InSequenceARankAddsItsMicroBatchesOneAfterAnother) {
  const AccumulationPlan accumulation(12, 2, false, true);
  EXPECT_EQ(accumulation.rounds, 1U);
  EXPECT_EQ(rank_sum(accumulation, 0, 1), "(((((6+7)+8)+9)+10)+11)");
  EXPECT_EQ(accumulation.stack(true), 2U);
  EXPECT_EQ(accumulation.stack(false), 1U);
}

TEST(AccumulationPlan, TheStackHoldsOneSumPerBit) {
  EXPECT_EQ(AccumulationPlan(1, 1).stack(true), 1U);
  EXPECT_EQ(AccumulationPlan(2, 1).stack(true), 2U);
  EXPECT_EQ(AccumulationPlan(64, 1).stack(true), 7U);
  EXPECT_EQ(AccumulationPlan(64, 32).stack(true), 2U);
  EXPECT_EQ(AccumulationPlan(1, 1).stack(false), 1U);
  EXPECT_EQ(AccumulationPlan(2, 1).stack(false), 1U);
  EXPECT_EQ(AccumulationPlan(64, 1).stack(false), 6U);
}

}  // namespace of_accumulation_test
}  // namespace shoal::zero
