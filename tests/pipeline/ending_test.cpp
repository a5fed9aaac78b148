// SPDX-License-Identifier: Apache-2.0
// If a stage ends or hangs, the others end soon after comm.timeout, and say which border they wait for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "support/hang_reported.hpp"
#include "support/launched.hpp"

namespace {

using shoal::test::Ended;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

void expect_reported_in_time(const Ended& ended) {
  constexpr double timeout_s = 3;  // as in ending_program.cpp
  shoal::test::expect_reported_in_time(ended.said, timeout_s);
}

Ended launch(const std::string& program) { return shoal::test::launch(program, 3); }
Ended run(const std::string& how) { return launch(std::string(ENDING_PROGRAM) + " " + how); }

TEST(EndingOfPipelines, AllAreDone) {
  const Ended ended = run("done");
  EXPECT_EQ(ended.code, 0) << ended.said;
  EXPECT_EQ(ended.said, "");
}

/// mpiexec must not notice the death, or it would end the others itself: a shell, the parent of the killed rank, continues.
TEST(EndingOfPipelines, AKilledStageIsNamed) {
  const Ended ended = launch("sh -c '" ENDING_PROGRAM " killed; code=$?; test $code -lt 128 || sleep 100; exit $code'");
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(ended.said, ContainsRegex("shoal: rank 0: rank 1 \\(.*, process [0-9]+\\) died without an error message"));
}

TEST(EndingOfPipelines, AnErrorOfAStageEndsAll) {
  const Ended ended = run("fails");
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.said, HasSubstr("shoal: rank 1: the disk is on fire\n"));
}

TEST(EndingOfPipelines, AStalledStageIsReportedWithTheBordersThatAreMissing) {
  const Ended ended = run("stalled");
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(
      ended.said,
      AllOf(ContainsRegex("shoal: rank 1 \\(.*, process [0-9]+\\) has shown no sign of life for [0-9]+ s, in phase step"),
            HasSubstr("  rank 0 waits for receive of the gradients of turn 0 for part 0 from stage 1, step 17 for "),
            HasSubstr("  rank 2 waits for receive of the activations of turn 2 for part 2 from stage 1, step 17 for ")));
  expect_reported_in_time(ended);
}

TEST(EndingOfPipelines, AStoppedStageIsNamedByThoseThatWait) {
  const Ended ended = run("stopped");
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(ended.said,
              AllOf(ContainsRegex("shoal: rank 0 has waited [0-9]+ s for receive of the gradients of turn 0 for part 0 from "
                                  "stage 1, 4096 bytes: no sign of life from rank 1 \\("),
                    ContainsRegex("\n  rank 1 shows no sign of life for [0-9]+ s, its process is stopped")));
  expect_reported_in_time(ended);
}

#ifdef NCCL_ENDING_PROGRAM
TEST(EndingOfPipelines, OverNcclTheBordersAreNamedToo) {
  const Ended done = launch(std::string(NCCL_ENDING_PROGRAM) + " done nccl");
  EXPECT_EQ(done.code, 0) << done.said;
  EXPECT_EQ(done.said, "");
  const Ended ended = launch(std::string(NCCL_ENDING_PROGRAM) + " stopped nccl");
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(ended.said,
              ContainsRegex("shoal: rank [02] has waited [0-9]+ s for receive of the (gradients|activations) of turn "
                            "[0-9] for part [02] from stage 1, 4096 bytes \\(exchange #[0-9]+ of pipeline, [0-9]+ "
                            "bytes\\): no sign of life from rank 1 \\("));
  expect_reported_in_time(ended);
}
#endif

}  // namespace
