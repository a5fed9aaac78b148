// SPDX-License-Identifier: Apache-2.0
// Which checkpoints belong to one trajectory, and which of them may be deleted.
#include "shoal/io/lineage.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/scratch.hpp"
#include "shoal/io/checkpoint_directory.hpp"

namespace shoal::test {
namespace of_lineage_test {

using io::CheckpointOrigin;
using io::Lineage;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;

const Lineage a = {"aaaa", "", {}};
const Lineage b = {"bbbb", "", {{"aaaa", 20}}};                // resumed from a's step 20
const Lineage c = {"cccc", "", {{"aaaa", 20}, {"bbbb", 40}}};  // and from b's step 40
const Lineage d = {"dddd", "", {{"aaaa", 20}}};                // also from a's step 20
const Lineage old = {};                                        // of an older program

TEST(Lineage, EveryRunHasAnIdentityOfItsOwn) {
  const Lineage first = io::new_run(), second = io::new_run();
  EXPECT_THAT(first.run, MatchesRegex("[0-9a-f]{32}"));
  EXPECT_NE(first.run, second.run);
  EXPECT_THAT(first.started, MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"));
  EXPECT_THAT(first.ancestors, IsEmpty());
}

TEST(Lineage, ARunThatGoesOnRemembersWhereItsAncestorsWereLeft) {
  const Lineage next = io::new_run_after(b, 40);
  EXPECT_THAT(next.run, MatchesRegex("[0-9a-f]{32}"));
  EXPECT_EQ(next.ancestors, c.ancestors);
}

TEST(Lineage, AnAncestorsCheckpointsBelongUntilItWasLeft) {
  EXPECT_TRUE(io::belongs(c, "cccc", 1000));
  EXPECT_TRUE(io::belongs(c, "aaaa", 20));
  EXPECT_FALSE(io::belongs(c, "aaaa", 21));
  EXPECT_TRUE(io::belongs(c, "bbbb", 40));
  EXPECT_FALSE(io::belongs(c, "bbbb", 60));
  EXPECT_FALSE(io::belongs(b, "cccc", 50));
  EXPECT_FALSE(io::belongs(b, "dddd", 30));
  EXPECT_TRUE(io::belongs(old, "", 7));
  EXPECT_FALSE(io::belongs(a, "", 7));
  EXPECT_TRUE(io::belongs(io::new_run_after(old, 7), "", 7));
}

TEST(Lineage, OneThatHoldsAllIsFound) {
  const auto run_of = [](const std::vector<CheckpointOrigin>& checkpoints) {
    const auto found = io::common_lineage(checkpoints);
    return found ? found->run : std::string("none");
  };
  EXPECT_EQ(run_of({}), "none");
  EXPECT_EQ(run_of({{a, 10}, {a, 20}}), "aaaa");
  EXPECT_EQ(run_of({{a, 10}, {c, 50}, {b, 30}, {a, 20}}), "cccc");
  EXPECT_EQ(run_of({{a, 10}, {a, 40}, {b, 30}}), "none") << "a's step 40 was abandoned";
  EXPECT_EQ(run_of({{a, 20}, {b, 30}, {d, 30}}), "none") << "two go on from one";
  EXPECT_EQ(run_of({{old, 10}, {old, 20}}), "");
  EXPECT_EQ(run_of({{old, 10}, {a, 20}}), "none");
  EXPECT_EQ(run_of({{old, 10}, {{"eeee", "", {{"", 10}}}, 20}}), "eeee");
}

TEST(Lineage, AncestorsAreTextsAndBack) {
  EXPECT_EQ(io::ancestors_of(io::texts_of(c.ancestors)), c.ancestors);
  EXPECT_EQ(io::texts_of(c.ancestors).at("000001"), "bbbb 40");
  const std::vector<io::Ancestor> of_old = {{"", 7}};
  EXPECT_EQ(io::ancestors_of(io::texts_of(of_old)), of_old);
  for (const char* const bad : {"", "aaaa", "aaaa ", "aaaa x", "aaaa 4x", "aaaa -4", "aaaa 99999999999999999999"}) {
    EXPECT_THAT(error_of([&] { io::ancestors_of({{"000000", bad}}); }), HasSubstr("not a run and a step")) << bad;
  }
  EXPECT_EQ(io::print(c.ancestors), "aaaa until step 20, bbbb until step 40");
}

/// The checkpoints that are deleted if those with the indices `damaged` are not whole. asked: how many had to be read.
std::vector<std::size_t> deleted(const std::vector<CheckpointOrigin>& checkpoints, const Lineage& lineage, int keep,
                                 const std::vector<std::size_t>& damaged = {}, std::size_t* asked = nullptr) {
  return io::to_delete(checkpoints, lineage, keep, [&](std::size_t i) {
    if (asked != nullptr) ++*asked;
    return std::find(damaged.begin(), damaged.end(), i) == damaged.end();
  });
}

TEST(Prune, TheOldestOfTheLineageGo) {
  EXPECT_THAT(deleted({{a, 10}, {a, 20}, {b, 30}, {b, 40}}, b, 2), ElementsAre(1, 0));
  EXPECT_THAT(deleted({{a, 10}, {a, 20}}, b, 2), IsEmpty());
}

TEST(Prune, OtherRunsAndAbandonedTrajectoriesAreLeftAlone) {
  EXPECT_THAT(deleted({{a, 10}, {a, 40}, {d, 25}, {b, 30}, {old, 5}}, b, 1), ElementsAre(0));
}

TEST(Prune, TheNewestWholeOneIsNeverDeleted) {
  // A damaged step 40 of the same run must not count: otherwise each new checkpoint would be deleted at once.
  const std::vector<CheckpointOrigin> checkpoints = {{a, 20}, {a, 22}, {a, 40}};
  EXPECT_THAT(deleted(checkpoints, a, 1, {2}), ElementsAre(0));
  EXPECT_THAT(deleted(checkpoints, a, 2, {2}), IsEmpty());
  EXPECT_THAT(deleted(checkpoints, a, 1, {0, 1, 2}), IsEmpty()) << "none is whole: none goes";
}

TEST(Prune, TheSparedOneStaysBesideTheNewest) {
  const std::vector<CheckpointOrigin> checkpoints = {{a, 10}, {a, 20}, {a, 30}, {a, 40}};
  const auto deleted = [&](int keep, std::int64_t spared) {
    return io::to_delete(
        checkpoints, a, keep, [](std::size_t) { return true; }, spared);
  };
  EXPECT_THAT(deleted(2, 10), ElementsAre(1));
  EXPECT_THAT(deleted(2, 30), ElementsAre(1, 0)) << "it is one of the newest";
  EXPECT_THAT(deleted(2, 15), ElementsAre(1, 0)) << "it is not there";
}

TEST(Prune, NoMoreAreReadThanDecide) {
  std::size_t asked = 0;
  EXPECT_THAT(deleted({{a, 10}, {a, 20}, {a, 30}, {a, 40}, {d, 50}}, a, 2, {}, &asked), ElementsAre(1, 0));
  EXPECT_EQ(asked, 2U);
}

}  // namespace of_lineage_test
}  // namespace shoal::test
