// SPDX-License-Identifier: Apache-2.0
// However NCCL fails, the run ends soon after comm.timeout, with a message that names the operation, the group and the rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "support/launched.hpp"

namespace {

using shoal::test::Ended;
using testing::ContainsRegex;
using testing::HasSubstr;

/// comm.timeout of the program is 3 s. Before it is over, a rank is not named; afterwards it may take two intervals of the
/// watchdog and the time to ask all ranks.
constexpr double longest_s = 15;

Ended run(const std::string& how, const std::string& setting, int ranks = 2) {
  return shoal::test::launch(std::string(NCCL_FAULTS_PROGRAM) + " " + how, ranks, "SHOAL_NCCL_DOUBLE=" + setting);
}

/// message: a regular expression.
void expect_failure(const std::string& how, const std::string& setting, const std::string& message, int ranks = 2) {
  const Ended ended = run(how, setting, ranks);
  EXPECT_NE(ended.code, 0) << ended.said;
  EXPECT_THAT(ended.said, ContainsRegex(message));
  EXPECT_LT(ended.seconds, longest_s) << ended.said;
}

TEST(NcclFaults, WithoutAFaultTheRunIsDone) {
  for (const char* const setting : {"", "delay"}) {
    const Ended ended = run("done", setting);
    EXPECT_EQ(ended.code, 0) << ended.said;
    EXPECT_EQ(ended.said, "");
  }
}

TEST(NcclFaults, ARankAloneMakesNoCalls) {
  const Ended ended = run("done", "forbidden", 1);
  EXPECT_EQ(ended.code, 0) << ended.said;
  expect_failure("done", "forbidden@0", "shoal: rank 0: ncclGetUniqueId: internal error .a call although");
}

TEST(NcclFaults, AnAsynchronousErrorEndsTheRun) {
  expect_failure(
      "done", "die:6@1",
      "shoal: rank 1: NCCL failed in group all: remote error .*first unfinished operation: all_reduce #[456] of all");
  expect_failure("done", "die:2@1",
                 "shoal: rank 1: (NCCL failed in group all|all_reduce #3 of all, 256 bytes): remote error");
}

TEST(NcclFaults, OperationsThatNeverEndAreNamed) {
  expect_failure("done", "stop:5@1",
                 "rank 0 has waited [3-9] s for all_reduce #5 of all, 256 bytes: all ranks are waiting.*ranks 0, 1 wait for "
                 "all_reduce #5 of all");
}

TEST(NcclFaults, CommunicatorsThatAreNeverMadeAreNamed) {
  expect_failure("done", "stuck-init@1", "ncclCommInitRankConfig of all did not end within 3 s");
}

TEST(NcclFaults, SplitsThatNeverEndAreNamed) {
  expect_failure("done", "stuck-split@1", "ncclCommSplit of node did not end within 3 s");
}

TEST(NcclFaults, AnOldLibraryIsRefused) {
  expect_failure("done", "version:21000@1",
                 "shoal: rank 1: the NCCL that was loaded is 2.10.0, but this program was compiled for 2.[0-9]+.[0-9]+;");
}

TEST(NcclFaults, CallsThatDifferAreFound) {
  expect_failure("counts", "", "invalid usage .rank . has all_reduce of (64|128) bytes, .* but rank . has all_reduce");
  expect_failure("order", "", "invalid usage .rank . has (broadcast|all_reduce) of .*, but rank . has");
}

TEST(NcclFaults, ARankThatStopsIsNamed) {
  expect_failure("stopped", "",
                 "rank 0 has waited [3-9] s for all_reduce #4 of all, 256 bytes: no sign of life from rank 1");
}

TEST(NcclFaults, AQueueThatNeverEndsIsNoSignOfLife) {
  const std::string words = " [(].*, process [0-9]+[)] has shown no sign of life for [3-9] s, in phase start";
  expect_failure("stuck", "forbidden", "shoal: rank 0" + words, 1);
  expect_failure("stuck", "", "shoal: rank 1" + words);
}

TEST(NcclFaults, ARankThatWaitsForAnotherMessageIsNamed) {
  expect_failure("left_out", "",
                 "for all_reduce #4 of all, 256 bytes.*rank 1 waits for receive|rank 0 waits for all_reduce #4");
}

}  // namespace
