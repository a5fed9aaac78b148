// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/turns.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace shoal::zero {
namespace {

/// What the stack of one rank does in a round, written as an expression over micro-batch numbers.
std::string rank_sum(const Turns& turns, std::size_t round, int rank) {
  std::vector<std::string> stack(turns.stack(true));
  for (std::size_t turn = 0; turn < turns.per_round; ++turn) {
    std::size_t top = turns.place(turn);
    stack.at(top) = std::to_string(turns.micro_batch(round, turn, rank));
    for (std::size_t i = 0; i < turns.merges(turn); ++i, --top) {
      stack.at(top - 1) = "(" + stack.at(top - 1) + "+" + stack.at(top) + ")";
    }
  }
  return stack.at(0);
}

/// The tree among ranks, low bits first.
std::string tree(std::vector<std::string> sums) {
  while (sums.size() > 1) {
    std::vector<std::string> next;
    for (std::size_t i = 0; i + 1 < sums.size(); i += 2) next.push_back("(" + sums[i] + "+" + sums[i + 1] + ")");
    sums = next;
  }
  return sums[0];
}

/// Every rank sums its turns, then the ranks their sums.
std::string group_sum(const Turns& turns, std::size_t round) {
  std::vector<std::string> sums;
  for (int rank = 0; rank < turns.ranks; ++rank) sums.push_back(rank_sum(turns, round, rank));
  return tree(sums);
}

/// The ranks sum every turn; what arrives is added to the stack from elsewhere.
std::string sum_of_turns(const Turns& turns, std::size_t round) {
  std::vector<std::string> stack(turns.stack(false));
  for (std::size_t turn = 0; turn < turns.per_round; ++turn) {
    std::vector<std::string> leaves;
    for (int rank = 0; rank < turns.ranks; ++rank) leaves.push_back(std::to_string(turns.micro_batch(round, turn, rank)));
    const std::string reduced = tree(leaves);
    std::size_t top = turns.place(turn);
    if (turns.merges(turn) == 0) stack.at(top) = reduced;
    for (std::size_t i = 0; i < turns.merges(turn); ++i, --top) {
      stack.at(top - 1) = "(" + stack.at(top - 1) + "+" + (i == 0 ? reduced : stack.at(top)) + ")";
    }
  }
  return stack.at(0);
}

TEST(Turns, EveryMicroBatchIsComputedOnce) {
  for (const std::size_t m : {1UL, 2UL, 6UL, 8UL, 12UL, 20UL, 24UL}) {
    for (int ranks = 1; ranks <= static_cast<int>(m); ++ranks) {
      if (m % static_cast<std::size_t>(ranks) != 0) continue;
      for (const bool every_turn : {false, true}) {
        const Turns turns(m, ranks, every_turn);
        EXPECT_EQ(turns.micro_batches(), m);
        std::set<std::size_t> seen;
        for (std::size_t round = 0; round < turns.rounds; ++round) {
          for (std::size_t turn = 0; turn < turns.per_round; ++turn) {
            for (int rank = 0; rank < ranks; ++rank) seen.insert(turns.micro_batch(round, turn, rank));
          }
        }
        EXPECT_EQ(seen.size(), m) << m << " micro-batches on " << ranks << " ranks";
        EXPECT_EQ(*seen.rbegin(), m - 1);
      }
    }
  }
}

TEST(Turns, TheSumIsTheSameExpressionOnEveryPowerOfTwo) {
  EXPECT_EQ(group_sum(Turns(8, 1), 0), "(((0+1)+(2+3))+((4+5)+(6+7)))");
  for (const std::size_t m : {2UL, 4UL, 6UL, 8UL, 12UL, 16UL, 20UL, 24UL}) {
    for (int ranks = 2; ranks <= 8; ranks *= 2) {
      if (m % static_cast<std::size_t>(ranks) != 0) continue;
      const Turns one(m, 1), many(m, ranks);
      ASSERT_EQ(one.rounds, many.rounds);
      for (std::size_t round = 0; round < one.rounds; ++round) {
        EXPECT_EQ(group_sum(many, round), group_sum(one, round)) << m << " micro-batches on " << ranks << " ranks";
        EXPECT_EQ(sum_of_turns(Turns(m, ranks, true), round), group_sum(one, round));
      }
    }
  }
}

TEST(Turns, OtherNumbersOfRanksMakeOneRound) {
  const Turns turns(12, 6);
  EXPECT_EQ(turns.rounds, 1U);
  EXPECT_EQ(turns.per_round, 2U);
  EXPECT_EQ(rank_sum(Turns(15, 5), 0, 1), "((3+4)+5)");
}

TEST(Turns, InSequenceARankAddsItsTurnsOneAfterAnother) {
  const Turns turns(12, 2, false, true);
  EXPECT_EQ(turns.rounds, 1U);
  EXPECT_EQ(rank_sum(turns, 0, 1), "(((((6+7)+8)+9)+10)+11)");
  EXPECT_EQ(turns.stack(true), 2U);
  EXPECT_EQ(turns.stack(false), 1U);
}

TEST(Turns, TheStackHoldsOneSumPerBit) {
  EXPECT_EQ(Turns(1, 1).stack(true), 1U);
  EXPECT_EQ(Turns(2, 1).stack(true), 2U);
  EXPECT_EQ(Turns(64, 1).stack(true), 7U);
  EXPECT_EQ(Turns(64, 32).stack(true), 2U);
  EXPECT_EQ(Turns(1, 1).stack(false), 1U);
  EXPECT_EQ(Turns(2, 1).stack(false), 1U);
  EXPECT_EQ(Turns(64, 1).stack(false), 6U);
}

}  // namespace
}  // namespace shoal::zero
