// SPDX-License-Identifier: Apache-2.0
// However a run ends, mpiexec returns our exit code, the right rank prints the error once, and no rank waits for ever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "support/hang_reported.hpp"
#include "support/launched.hpp"

namespace {

using shoal::test::Ended;
using shoal::test::launch;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

constexpr double timeout_s = 3;  // as in ending_program.cpp

void expect_reported_in_time(const Ended& ended, double more_s = 0) {
  shoal::test::expect_reported_in_time(ended.said, timeout_s, more_s);
}

Ended run(const std::string& how, int ranks, const std::string& environment = "") {
  return launch(std::string(ENDING_PROGRAM) + " " + how, ranks, environment);
}

std::size_t count(const std::string& text, const std::string& words) {
  std::size_t times = 0;
  for (std::size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++times;
  return times;
}

TEST(Ending, AllAreDone) {
  for (const int ranks : {1, 2, 4}) {
    const Ended ended = run("done", ranks);
    EXPECT_EQ(ended.code, 0) << ended.said;
    EXPECT_EQ(ended.said, "");
  }
}

TEST(Ending, RequeueIsTheExitCodeOfTheWhole) {
  const Ended ended = run("requeue", 2);
  EXPECT_EQ(ended.code, 75) << ended.said;
}

TEST(Ending, OneRanksFailureIsTheExitCodeOfTheWhole) {
  const Ended ended = run("one_fails", 3);
  EXPECT_EQ(ended.code, 1) << ended.said;
}

TEST(Ending, WhatAllSeeIsSaidOnceLineByLine) {
  for (const int ranks : {1, 3}) {
    const Ended ended = run("bad_input", ranks);
    EXPECT_EQ(ended.code, 2);
    EXPECT_EQ(ended.said, "shoal: x = 3: no such x\nshoal: x = 4: nor this\n");
  }
}

TEST(Ending, WhatDiffersIsSaidByItsRank) {
  const Ended ended = run("differing", 3);
  EXPECT_EQ(ended.code, 2);
  EXPECT_EQ(count(ended.said, "\n"), 2U) << ended.said;
  EXPECT_THAT(ended.said, AllOf(HasSubstr("shoal: x = 3: no such x\n"), HasSubstr("shoal: rank 1: x = 4: no such x\n")));
}

TEST(Ending, WhatOneRankSeesIsSaidByItAndEndsAllAtOnce) {
  const Ended ended = run("fails_here", 3);
  EXPECT_EQ(ended.code, 1) << ended.said;
  EXPECT_THAT(ended.said, HasSubstr("shoal: rank 1: the disk is on fire\n"));
  EXPECT_EQ(count(ended.said, "shoal:"), 1U) << ended.said;
}

TEST(Ending, AnErrorThatOthersDoNotSeeIsBounded) {
  const Ended ended = run("seen_by_one", 2);
  EXPECT_EQ(ended.code, 2) << ended.said;
  EXPECT_THAT(ended.said, HasSubstr("shoal: rank 1: only rank 1 thinks so\n"));
}

TEST(Ending, AWorldOfAnotherSizeThanTheJobsIsRefused) {
  const Ended ended = run("done", 2, "SLURM_NTASKS=4");
  EXPECT_EQ(ended.code, 2) << ended.said;
  EXPECT_THAT(ended.said, AllOf(HasSubstr("SLURM_NTASKS = 4"), HasSubstr("world of 2 ranks")));
}

/// mpiexec would end the other ranks itself (hydra 4.0.2 sometimes even with -disable-auto-cleanup), so it must not notice
/// the death: a shell, the parent of the killed rank, continues.
TEST(Ending, AKilledRankIsNamedByTheOthers) {
  const Ended ended = launch("sh -c '" ENDING_PROGRAM " killed; code=$?; test $code -lt 128 || sleep 100; exit $code'", 3);
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(ended.said, ContainsRegex("shoal: rank 0: rank 1 \\(.*, process [0-9]+\\) died without an error message"));
  EXPECT_EQ(count(ended.said, "died without an error message"), 1U) << ended.said;
}

TEST(Ending, ARankThatSaidWhyItEndsDidNotDieWithoutAMessage) {
  const Ended ended =
      launch("sh -c '" ENDING_PROGRAM " fails_slowly; code=$?; test $code != 1 || sleep 100; exit $code'", 3);
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(ended.said, HasSubstr("shoal: rank 1: the disk is on fire\n"));
  EXPECT_THAT(ended.said, ContainsRegex("shoal: rank 0: rank 1 \\(.*, process [0-9]+\\) aborted this run"));
  EXPECT_THAT(ended.said, testing::Not(HasSubstr("without an error message")));
}

TEST(Ending, RanksThatAreGoneBesideOneThatAbortedAreNamed) {
  const Ended ended = launch(
      "sh -c '" ENDING_PROGRAM " killed_and_fails; code=$?; test $code != 1 -a $code -lt 128 || sleep 100; exit $code'", 3);
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(ended.said, ContainsRegex("shoal: rank 0: rank 1 \\(.*, process [0-9]+\\) aborted this run.*; also gone: "
                                        "rank 2 \\(.*, process [0-9]+\\)\n"));
}

TEST(Ending, AnErrorOfMpiInTheWatchdogNamesTheRank) {
  const Ended ended = run("mpi_fails", 2);
  EXPECT_EQ(ended.code, 1) << ended.said;
  EXPECT_THAT(ended.said, ContainsRegex("shoal: rank 1 \\(.*, process [0-9]+\\): MPI_Improbe: "));
  EXPECT_EQ(count(ended.said, "shoal:"), 1U) << ended.said;
}

/// mpiexec ends at once. The ranks' standard error goes to a file, since the pipe ends with the proxy.
TEST(Ending, RanksEndWithTheirLauncher) {
  const auto words = std::filesystem::temp_directory_path() / ("ending-test-" + std::to_string(getpid()));
  const Ended ended = launch("sh -c 'exec " ENDING_PROGRAM " orphans 2>> " + words.string() + "'", 2);
  EXPECT_NE(ended.code, 0);
  std::istringstream said(ended.said);
  std::vector<int> ranks;
  for (std::string word; said >> word;) {
    int number = 0;
    if (word == "rank" && said >> number) ranks.push_back(number);
  }
  EXPECT_EQ(ranks.size(), 2U) << ended.said;
  for (const int rank : ranks) {
    int tests = 0;
    while (kill(rank, 0) == 0 && ++tests < 60) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_NE(kill(rank, 0), 0) << "process " << rank << " still runs, twice the timeout later";
  }
  std::ifstream file(words);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_THAT(text, ContainsRegex("shoal: rank [01] \\(.*\\): the launcher's process [0-9]+ has ended"));
  std::filesystem::remove(words);
}

/// One report says of every rank what it is doing; the stalled rank cannot do so itself.
TEST(Ending, AStalledRankIsReportedWithAllOthers) {
  const Ended ended = run("stalled", 4);
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(ended.said,
              ContainsRegex("shoal: rank 1 \\(.*, process [0-9]+\\) has shown no sign of life for [0-9]+ s, in phase step"));
  EXPECT_THAT(ended.said,
              ContainsRegex("\n  rank 1 shows no sign of life for [0-9]+ s, its process sleeps, in phase step, after "
                            "all_reduce \\(number 2 of group all\\)\n"));
  EXPECT_THAT(ended.said, ContainsRegex("\n  ranks 0, 2, 3 wait for all_reduce \\(number 3 of group all\\) for [0-9].* s"));
  EXPECT_THAT(ended.said, HasSubstr("\n  of group all, ranks 0, 2, 3 have started 3 collectives, rank 1 has started 2\n"));
  EXPECT_EQ(count(ended.said, "sign of life"), 2U) << "headline and table, once: " << ended.said;
  expect_reported_in_time(ended);
}

/// If a rank's memory cannot be read (it is on another machine, alone), the ranks that wait for it report it. (The program
/// makes two watchdogs, each with one collective.)
TEST(Ending, AStalledRankOfAnotherMachineIsReportedByThoseThatWait) {
  const Ended ended = run("unseen", 3);
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.said, AllOf(ContainsRegex("shoal: rank 0 has waited [0-9]+ s for all_reduce"),
                                HasSubstr("no sign of life from rank 1 ("), HasSubstr("\n  rank 1 does not answer"),
                                ContainsRegex("\n  ranks 0, 2 wait for all_reduce \\(number 4 of group all\\) for ")));
  EXPECT_EQ(count(ended.said, "shoal:"), 1U) << ended.said;
  expect_reported_in_time(ended);
}

TEST(Ending, SeveralStalledRanksAreOneReport) {
  const Ended ended = run("two_stalled", 4);
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(ended.said, ContainsRegex("shoal: rank 1 \\(.*\\), rank 3 \\(.*\\) have shown no sign of life for"));
  EXPECT_THAT(ended.said, ContainsRegex("\n  ranks 1, 3 show no sign of life"));
  EXPECT_EQ(count(ended.said, "shoal:"), 1U) << ended.said;
  expect_reported_in_time(ended);
}

TEST(Ending, RanksAtDifferentCollectivesArePointedOut) {
  const Ended ended = run("different", 3);
  EXPECT_EQ(ended.code, 1) << ended.said;
  EXPECT_THAT(ended.said, AllOf(HasSubstr("all ranks are waiting (a deadlock"),
                                ContainsRegex("  rank 1 waits for all_reduce \\(number 3 of group all\\) for"),
                                ContainsRegex("  ranks 0, 2 wait for barrier \\(number 1 of group node\\) for"),
                                HasSubstr("  of group all, rank 1 has started 3 collectives, ranks 0, 2 have started 2\n"),
                                HasSubstr("  of group node, ranks 0, 2 have started 1 collective, rank 1 has started 0\n")));
  EXPECT_EQ(count(ended.said, "shoal:"), 1U) << ended.said;
  expect_reported_in_time(ended);
}

TEST(Ending, WhoComputesForTenTimesTheTimeoutIsAlive) {
  const Ended ended = run("computes", 3);
  EXPECT_EQ(ended.code, 0) << ended.said;
  EXPECT_EQ(ended.said, "");
  EXPECT_GT(ended.seconds, 10);
}

/// The answers are as many messages as the questions. If every rank asked, each would send as many as rank 0.
TEST(Ending, OneRankAsksForAllThatWait) {
  constexpr int ranks = 8;
  const Ended ended = run("asks", ranks);
  EXPECT_EQ(ended.code, 0) << ended.said;
  std::istringstream said(ended.said);
  const std::vector<int> sent{std::istream_iterator<int>(said), {}};
  ASSERT_EQ(sent.size(), static_cast<std::size_t>(ranks)) << ended.said;
  EXPECT_GE(sent[0], 10 * (ranks - 1)) << ended.said;
  EXPECT_LT(std::accumulate(sent.begin(), sent.end(), 0), 3 * sent[0]) << ended.said;
}

/// Meanwhile the watchdog of the rank that stalls may report it, too.
TEST(Ending, IfTheRankThatAsksIsStoppedTheNextOneAsks) {
  const Ended ended = run("asker_stops", 4);
  EXPECT_EQ(ended.code, 1) << ended.said;
  EXPECT_THAT(ended.said, AllOf(ContainsRegex("shoal: rank 2 has waited [0-9]+ s for all_reduce"),
                                ContainsRegex("no sign of life from (rank 0 \\(.*\\), )?rank 1 \\(")));
  expect_reported_in_time(ended, timeout_s / 2);  // another one asks: see inquiry.hpp
}

TEST(Ending, WhoTakesOverAskingDoesNotCallThoseMuteThatItHasNotHeard) {
  const Ended ended = run("some_stop", 4);
  EXPECT_EQ(ended.code, 0) << ended.said;
  EXPECT_EQ(ended.said, "");
}

/// Asleep in a kernel; and busy, but neither in a kernel nor between two, like a library that waits for ever.
TEST(Ending, WhoDoesNotComputeIsNot) {
  for (const char* how : {"stuck_kernel", "spins"}) {
    const Ended ended = run(how, 2);
    EXPECT_NE(ended.code, 0);
    EXPECT_THAT(ended.said, ContainsRegex("shoal: rank 1 \\(.*, process [0-9]+\\) has shown no sign of life for [0-9]+ s"));
    EXPECT_EQ(count(ended.said, "shoal:"), 1U) << how << ": " << ended.said;
    expect_reported_in_time(ended);
  }
}

TEST(Ending, RanksThatStallTogetherSaySoOnce) {
  const Ended ended = run("all_stalled", 3);
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(ended.said, ContainsRegex("shoal: rank 0 \\(.*, process [0-9]+\\) has shown no sign of life for [0-9]+ s"));
  EXPECT_EQ(count(ended.said, "shoal:"), 1U) << ended.said;
  expect_reported_in_time(ended);
}

TEST(Ending, AStoppedRankIsNamedByThoseThatWait) {
  const Ended ended = run("stopped", 3);
  EXPECT_EQ(ended.code, 1) << ended.said;
  EXPECT_THAT(ended.said, AllOf(HasSubstr("shoal: rank 0 has waited"), HasSubstr("no sign of life from rank 1 ("),
                                ContainsRegex("rank 1 shows no sign of life for [0-9]+ s, its process is stopped"),
                                HasSubstr("ranks 0, 2 wait for all_reduce")));
  EXPECT_EQ(count(ended.said, "shoal:"), 1U) << ended.said;
  expect_reported_in_time(ended);
}

TEST(Ending, RanksThatDoNotHearEachOtherReportOnce) {
  const Ended ended = run("late_messages", 8);
  EXPECT_EQ(ended.code, 1) << ended.said;
  EXPECT_THAT(ended.said, ContainsRegex("rank 1 shows no sign of life for [0-9]+ s, its process is stopped"));
  EXPECT_EQ(count(ended.said, "shoal:"), 1U) << ended.said;
}

TEST(Ending, ASuspendedJobContinues) {
  const Ended ended = run("suspended", 3);
  EXPECT_EQ(ended.code, 0) << ended.said;
  EXPECT_EQ(ended.said, "");
  EXPECT_GT(ended.seconds, 9);
}

TEST(Ending, RanksThatWaitForDifferentThingsAreShown) {
  const Ended ended = run("mixed_up", 2);
  EXPECT_EQ(ended.code, 1) << ended.said;
  EXPECT_THAT(ended.said, AllOf(HasSubstr("for all_reduce #"), HasSubstr("all ranks are waiting (a deadlock"),
                                HasSubstr("rank 1 waits for receive (group all)")));
  expect_reported_in_time(ended);
}

TEST(Ending, AWaitWithinTheTimeoutIsNoFault) {
  const Ended ended = run("slow", 2);
  EXPECT_EQ(ended.code, 0) << ended.said;
  EXPECT_EQ(ended.said, "");
}

}  // namespace
