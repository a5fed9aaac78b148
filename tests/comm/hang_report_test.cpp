// SPDX-License-Identifier: Apache-2.0
// The table of a report about a hang: hundreds of ranks in a few lines, and collectives that do not fit together.
#include "comm/hang/hang_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace shoal::comm {
namespace of_hang_report_test {

using testing::HasSubstr;
using testing::Not;

activity::Operation operation(const char* name, std::uint64_t number, int group = 0, int unit = -1) {
  return {activity::name_from(name), number, 17, static_cast<std::int16_t>(unit), static_cast<std::int16_t>(group)};
}

RankState waiting(const activity::Operation& what, double seconds = 5) {
  RankState state;
  state.picture.emplace();
  state.picture->waits = 1;
  state.picture->operation = what;
  state.picture->phase = activity::name_from("step");
  state.picture->step = 17;
  state.picture->since_s = seconds;
  if (what.group >= 0) state.picture->started[static_cast<std::size_t>(what.group)] = what.number;
  return state;
}

RankState at_work(const activity::Operation& last, bool silent = false) {
  RankState state = waiting(last);
  state.picture->waits = 0;
  state.silent = silent;
  state.picture->silent_s = silent ? 7 : 0;
  return state;
}

std::vector<GroupKind> groups(int ranks, int per_node) {
  GroupKind all{"all", std::vector<int>(static_cast<std::size_t>(ranks), 0)}, node{"node", {}};
  for (int r = 0; r < ranks; ++r) node.part_of.push_back(r / per_node);
  return {all, node};
}

std::ptrdiff_t lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

TEST(RanksText, RunsAreJoined) {
  EXPECT_EQ(ranks_text({3}), "3");
  EXPECT_EQ(ranks_text({0, 1}), "0, 1");
  EXPECT_EQ(ranks_text({0, 1, 2, 3, 4, 5, 7}), "0-5, 7");
  EXPECT_EQ(ranks_text({1, 3, 4, 5}), "1, 3-5");
}

TEST(HangTable, ManyRanksTakeFewLines) {
  activity::name_units({"wte", "h.0", "h.1"});
  std::vector<RankState> ranks;
  for (int r = 0; r < 512; ++r) ranks.push_back(waiting(operation("all_gather", 12, 0, 2), 5 + r % 3));
  ranks[100] = at_work(operation("all_gather", 11, 0, 1), true);
  ranks[100].process = 'D';
  const std::string table = hang_table(ranks, groups(512, 8));
  activity::name_units({});
  EXPECT_EQ(lines(table), 3) << table;
  EXPECT_THAT(table,
              HasSubstr("  rank 100 shows no sign of life for 7 s, its process waits for a disk or a file system (state D), "
                        "in phase step, step 17, after all_gather of unit h.0, step 17 (number 11 of group all)\n"));
  EXPECT_THAT(table, HasSubstr("  ranks 0-99, 101-511 wait for all_gather of unit h.1, step 17 (number 12 of group all) "
                               "for 5 to 7 s, in phase step\n"));
  EXPECT_THAT(table,
              HasSubstr("  of group all, ranks 0-99, 101-511 have started 12 collectives, rank 100 has started 11\n"));
}

TEST(HangTable, RanksThatAgreeAreNotPointedOut) {
  const std::vector<RankState> ranks(4, waiting(operation("barrier", 3)));
  EXPECT_EQ(hang_table(ranks, groups(4, 2)),
            "  ranks 0-3 wait for barrier, step 17 (number 3 of group all) for 5 s, in phase step\n");
}

TEST(HangTable, DifferentCollectivesUnderOneNumberArePointedOut) {
  std::vector<RankState> ranks(3, waiting(operation("all_gather", 8)));
  ranks[1] = waiting(operation("barrier", 8));
  EXPECT_THAT(hang_table(ranks, groups(3, 3)),
              HasSubstr("  number 8 of group all is all_gather, step 17 on ranks 0, 2, but barrier, step 17 on rank 1\n"));
}

/// Different nodes may be at different collectives of their own groups.
TEST(HangTable, OnlyRanksOfOneGroupAreCompared) {
  std::vector<RankState> ranks = {waiting(operation("all_gather", 8, 1)), waiting(operation("all_gather", 8, 1)),
                                  waiting(operation("all_gather", 9, 1)), waiting(operation("all_gather", 9, 1))};
  EXPECT_THAT(hang_table(ranks, groups(4, 2)), Not(HasSubstr("of group node, ")));
  EXPECT_THAT(hang_table(ranks, groups(4, 4)),
              HasSubstr("  of group node, ranks 2, 3 have started 9 collectives, ranks 0, 1 have started 8\n"));
}

TEST(HangTable, ARankOfWhichNothingIsKnownIsListed) {
  std::vector<RankState> ranks(3, waiting(operation("barrier", 3)));
  ranks[2] = {};
  ranks[2].silent = true;
  EXPECT_THAT(hang_table(ranks, groups(3, 1)), HasSubstr("  rank 2 does not answer; where it is is not known"));
}

TEST(HangTable, StatesBeyondAPageAreCounted) {
  std::vector<RankState> ranks;
  for (std::uint64_t r = 0; r < 100; ++r) ranks.push_back(waiting(operation("all_gather", r + 1)));
  const std::string table = hang_table(ranks, groups(100, 100));
  EXPECT_THAT(table, HasSubstr("  and 60 other states\n"));
  EXPECT_LT(lines(table), 50);
}

}  // namespace of_hang_report_test
}  // namespace shoal::comm
