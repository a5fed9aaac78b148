// SPDX-License-Identifier: Apache-2.0
// However NCCL fails, the run ends soon after comm.timeout, with a message that names the operation, the group and the rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "support/hang_reported.hpp"
#include "support/launched.hpp"

namespace {

using shoal::test::Ended;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr double timeout_s = 3;  // as in nccl_faults_program.cpp

Ended run(const std::string& how, const std::string& setting, int ranks = 2,
          const std::string& program = NCCL_FAULTS_PROGRAM) {
  return shoal::test::launch(program + " " + how, ranks, "SHOAL_NCCL_DOUBLE=" + setting);
}

/// message: a regular expression.
Ended expect_failure(const std::string& how, const std::string& setting, const std::string& message, int ranks = 2) {
  const Ended ended = run(how, setting, ranks);
  EXPECT_NE(ended.code, 0) << ended.said;
  EXPECT_THAT(ended.said, ContainsRegex(message));
  return ended;
}

/// The failure is a hang, which is reported when comm.timeout is over.
void expect_hang(const std::string& how, const std::string& setting, const std::string& message, int ranks = 2) {
  shoal::test::expect_reported_in_time(expect_failure(how, setting, message, ranks).said, timeout_s);
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

/// Rank 1 never makes its part of a sum. A gather of the same group that is enqueued behind it, on a queue of its own, ends
/// only with a communicator of its own, which shares no buffers with that of the sum.
TEST(NcclFaults, AGatherThatIsApartDoesNotWaitForASum) {
  const std::string never_ends = "rank 0 has waited [0-9]+ s for all_reduce #4 of all, 32 bytes: all ranks are waiting";
  const Ended together = expect_failure("gather", "stop:4@1", never_ends);
  EXPECT_THAT(together.said, Not(HasSubstr("gathered")));
  const Ended apart = expect_failure("gather_apart", "stop:4@1", never_ends);
  EXPECT_THAT(apart.said, ContainsRegex("gathered\n(.|\n)*gathered\n")) << "on both ranks";
}

TEST(NcclFaults, AnErrorOfGathersThatAreApartIsFound) {
  expect_failure("gather_apart", "die:5@1",
                 "shoal: rank 1: (NCCL failed in group all .gathers.|all_gather #5 of all, 64 bytes): remote error");
}

/// Calls of two groups on two queues: the double fails one that begins before the one before it has ended, with a version
/// that lets the device choose.
TEST(NcclFaults, AnOldLibraryKeepsTheOrderOfCalls) {
  for (const char* const how : {"two_queues", "two_queues_apart"}) {
    for (const char* const version : {"version:22500", "version:22801"}) {
      const Ended ended = run(how, version, 4, NCCL_OLD_PROGRAM);
      EXPECT_EQ(ended.code, 0) << how << version << ended.said;
      EXPECT_EQ(ended.said, "") << how << version;
    }
  }
}

/// Rank 3 never makes its call of `node`, or of gathers that are apart, so that of rank 2 stands for ever in front of the
/// call of `all` that fails there. 2.22.3 aborts communicators together, an older version in the order of their calls.
TEST(NcclFaults, ACallOfAnotherGroupInFrontDoesNotKeepTheRun) {
  for (const char* const how : {"behind", "behind_gather_apart"}) {
    for (const char* const version : {"", ",version:22203", ",version:22202"}) {
      const Ended ended = run(how, std::string("stop:4@3,die:5@2") + version, 4, NCCL_OLD_PROGRAM);
      EXPECT_NE(ended.code, 0);
      EXPECT_THAT(
          ended.said,
          ContainsRegex("shoal: rank 2: (NCCL failed in group all|all_reduce #[56] of all, 256 bytes): remote error"));
      EXPECT_THAT(ended.said, Not(HasSubstr("sign of life"))) << how << version;
    }
  }
}

/// Nothing helps if a kernel that never ends stands in front: then the watchdog ends the run, and the reason is known.
TEST(NcclFaults, TheReasonComesBeforeTheEndOfCommunicators) {
  expect_failure("behind_a_kernel", "die:4@1",
                 "shoal: rank 1: (NCCL failed in group all|all_reduce #[56] of all, 256 bytes): remote error(.|\n)*"
                 "rank 1 .*has shown no sign of life");
}

TEST(NcclFaults, OperationsThatNeverEndAreNamed) {
  expect_hang("done", "stop:5@1",
              "rank 0 has waited [0-9]+ s for all_reduce #5 of all, 256 bytes: all ranks are waiting.*ranks 0, 1 wait for "
              "all_reduce #5 of all");
}

TEST(NcclFaults, ACallThatNeverReturnsIsNoSignOfLife) {
  expect_failure("done", "block:5@1", "shoal: rank 1 [(].*, process [0-9]+[)] has shown no sign of life for [3-9] s");
}

TEST(NcclFaults, CommunicatorsThatAreNeverMadeAreNamed) {
  expect_failure("done", "stuck-init@1", "ncclCommInitRankConfig of all ranks did not end within 3 s");
}

TEST(NcclFaults, SplitsThatNeverEndAreNamed) {
  expect_failure("done", "stuck-split@1", "ncclCommSplit of all did not end within 3 s");
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
  expect_hang("stopped", "", "rank 0 has waited [0-9]+ s for all_reduce #4 of all, 256 bytes: no sign of life from rank 1");
}

TEST(NcclFaults, AQueueThatNeverEndsIsNoSignOfLife) {
  const std::string words = " [(].*, process [0-9]+[)] has shown no sign of life for [0-9]+ s, in phase start";
  expect_hang("stuck", "forbidden", "shoal: rank 0" + words, 1);
  expect_hang("stuck", "", "shoal: rank 1" + words);
}

TEST(NcclFaults, ARankThatWaitsForAnotherMessageIsNamed) {
  expect_failure("left_out", "",
                 "for all_reduce #4 of all, 256 bytes.*rank 1 waits for receive|rank 0 waits for all_reduce #4");
}

}  // namespace
