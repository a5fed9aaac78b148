// SPDX-License-Identifier: Apache-2.0
// How the way of waiting is chosen.
#include "shoal/comm/wait.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <vector>

#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"

namespace shoal::comm {
namespace of_wait_test {

CoreMask cores(std::uint64_t first, std::uint64_t second = 0) {
  CoreMask mask{};
  mask[0] = first;
  mask[1] = second;
  return mask;
}

class ChooseWait : public testing::Test {
 protected:
  void SetUp() override { unsetenv("SHOAL_COMM_WAIT"); }
  void TearDown() override { unsetenv("SHOAL_COMM_WAIT"); }
};

TEST(CoreShare, RanksThatMayUseAllCoresDivideThem) {
  const std::vector<CoreMask> three(3, cores(0b11));
  EXPECT_DOUBLE_EQ(core_share(three, 1), 2.0 / 3);
  const std::vector<CoreMask> two(2, cores(0b1, 0b111));
  EXPECT_DOUBLE_EQ(core_share(two, 0), 2);
}

TEST(CoreShare, BoundRanksHaveTheirOwn) {
  const std::vector<CoreMask> ranks = {cores(0b0011), cores(0b1100), cores(0, 0b1)};
  EXPECT_DOUBLE_EQ(core_share(ranks, 0), 2);
  EXPECT_DOUBLE_EQ(core_share(ranks, 2), 1);
}

TEST(CoreShare, TwoRanksOnOneCoreShareItHoweverManyAreIdle) {
  const std::vector<CoreMask> ranks = {cores(0b0001), cores(0b0001), cores(0b1110)};
  EXPECT_DOUBLE_EQ(core_share(ranks, 0), 0.5);
  EXPECT_DOUBLE_EQ(core_share(ranks, 2), 3);
}

TEST(CoreShare, ThisProcessHasCores) { EXPECT_GE(core_share(std::vector{usable_cores()}, 0), 1); }

TEST_F(ChooseWait, AutoSleepsWithLessThanACore) {
  EXPECT_EQ(choose_wait(Wait::automatic, 1.0), Wait::yield);
  EXPECT_EQ(choose_wait(Wait::automatic, 1.0 / 3 + 1.0 / 3 + 1.0 / 3), Wait::yield);
  EXPECT_EQ(choose_wait(Wait::automatic, 0.99), Wait::sleep);
  EXPECT_EQ(choose_wait(Wait::yield, 0.1), Wait::yield);
  EXPECT_EQ(choose_wait(Wait::sleep, 8), Wait::sleep);
}

TEST_F(ChooseWait, TheEnvironmentGoesFirst) {
  setenv("SHOAL_COMM_WAIT", "sleep", 1);
  EXPECT_EQ(choose_wait(Wait::yield, 8), Wait::sleep);
  setenv("SHOAL_COMM_WAIT", "auto", 1);
  EXPECT_EQ(choose_wait(Wait::sleep, 8), Wait::yield);
}

TEST_F(ChooseWait, OtherWordsAreRefusedByName) {
  for (const char* const word : {"spin", ""}) {
    setenv("SHOAL_COMM_WAIT", word, 1);
    EXPECT_THAT([] { choose_wait(Wait::yield, 1); },
                testing::ThrowsMessage<Error>(
                    testing::AllOf(testing::HasSubstr(text("SHOAL_COMM_WAIT = ", word, ":")), testing::HasSubstr("sleep"))));
  }
}

TEST(BackoffOf, WhoWaitsIsAlive) {
  heartbeat::beat();
  Backoff backoff;
  EXPECT_FALSE(backoff.yields());
  for (int i = 0; i < 50; ++i) backoff.pause();
  EXPECT_TRUE(backoff.yields());
  const auto before = std::chrono::steady_clock::now();
  backoff.pause();
  const std::int64_t silence = heartbeat::silence_ns();
  EXPECT_LE(silence, std::chrono::nanoseconds(std::chrono::steady_clock::now() - before).count()) << "a pause is a beat";
}

}  // namespace of_wait_test
}  // namespace shoal::comm
