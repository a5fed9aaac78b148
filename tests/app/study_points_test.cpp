// SPDX-License-Identifier: Apache-2.0
// The points of a study, without a run: how lists become points, which batches they have, and what the plan predicts.
#include "app/study/points.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/jobscript/jobscript.hpp"
#include "app/study/planner.hpp"
#include "shoal/base/error.hpp"
#include "shoal/config/deck.hpp"
#include "shoal/kernels/runtime.hpp"

namespace shoal::app {
namespace of_study_points_test {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* deck_text =
    "[model]\nn_layer = 2\nn_head = 2\nn_embd = 32\nblock_size = 32\nvocab_size = 64\n[batch]\nmicro = 2\nglobal = 16\n";

/// The deck with a section [study].
config::Invocation study(const std::string& section, const std::string& more = {}) {
  config::Invocation invocation;
  for (const auto& own : study_options()) invocation.own_values[own.name] = own.value;
  const config::Deck deck = config::parse_deck_text(deck_text + more + "[study]\n" + section, "a.cfg", study_options());
  EXPECT_THAT(deck.problems, testing::IsEmpty());
  invocation.deck = "a.cfg";
  invocation.options = deck.options;
  invocation.places = deck.places;
  for (const auto& [name, value] : deck.own) invocation.own_values[name] = value;
  return invocation;
}

std::vector<StudyPoint> points(const config::Invocation& invocation) {
  return study_points(invocation, study_request(invocation), std::nullopt);
}

std::string refusal(const std::string& section, const std::string& more = {}) {
  try {
    points(study(section, more));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bad_input);
    return error.what();
  }
  return "accepted";
}

std::vector<std::string> names(const std::vector<StudyPoint>& points) {
  std::vector<std::string> result;
  for (const StudyPoint& point : points) result.push_back(point.name);
  return result;
}

TEST(StudyRequest, NodesAndRanksBelongTogetherInPairs) {
  const auto grids = [](const std::string& section) { return study_request(study(section)).grids; };
  EXPECT_EQ(grids("nodes = 1,2,...,8\nranks_per_node = 4\n"), (std::vector<StudyGrid>{{1, 4}, {2, 4}, {4, 4}, {8, 4}}));
  EXPECT_EQ(grids("nodes = 1,1,2\nranks_per_node = 1,4,4\n"), (std::vector<StudyGrid>{{1, 1}, {1, 4}, {2, 4}}));
  EXPECT_EQ(grids("nodes = 2\nranks_per_node = 1,2\n"), (std::vector<StudyGrid>{{2, 1}, {2, 2}}));
}

TEST(StudyRequest, StrategiesAreNamesWithOptions) {
  const auto request =
      study_request(study("nodes = 1\nstrategies = stage 3,  hpZ+qwZ , --zero.stage=1 train.seed=2,deck\n"));
  ASSERT_EQ(request.strategies.size(), 4U);
  EXPECT_EQ(request.strategies[0].name, "stage 3");
  EXPECT_EQ(request.strategies[1].name, "hpZ+qwZ");
  EXPECT_EQ(request.strategies[2].name, "deck");
  EXPECT_THAT(request.strategies[2].options,
              ElementsAre(testing::Pair("zero.stage", "1"), testing::Pair("train.seed", "2")));
  EXPECT_THAT(refusal("nodes = 1\nstrategies = stage 3,,stage 1\n"), HasSubstr("a.cfg:12: study.strategies"));
  EXPECT_THAT(refusal("nodes = 1\nstrategies = stage 3 train.seed=2 fast\n"), HasSubstr("fast follows an option"));
}

/// A strategy takes the deck's values of the options that it uses and does not set, also of those that the deck set for its
/// own strategy.
TEST(StudyPoints, OptionsOnTopMeetThoseOfTheDeck) {
  const std::string more =
      "[sync]\nkind = diloco\nlocalsgd_frequency = 4\n[pipeline]\nsize = 2\nschedule = 1f1b\nbalance = 1,1\n";
  const auto of = [&](const std::string& strategies) {
    return points(study("nodes = 1\nranks_per_node = 2\nstrategies = " + strategies + "\n", more)).front().options;
  };
  const config::Options local = of("stage 1 sync.kind=localsgd"), piped = of("stage 1 model.tied=false pipeline.size=2"),
                        plain = of("stage 1");
  EXPECT_EQ(local.sync.localsgd_frequency, 4U);
  EXPECT_EQ(local.pipeline.schedule, config::Options().pipeline.schedule);
  EXPECT_EQ(piped.pipeline.schedule, pipeline::Schedule::one_f_one_b);
  EXPECT_EQ(piped.pipeline.balance, "1,1");
  EXPECT_EQ(plain.sync.localsgd_frequency, config::Options().sync.localsgd_frequency);
  EXPECT_EQ(plain.pipeline.schedule, config::Options().pipeline.schedule);
  EXPECT_THAT(refusal("nodes = 1\nranks_per_node = 2\nstrategies = stage 1 sync.localsgd_frequency=2\n", more),
              HasSubstr("sync.localsgd_frequency = 2 has no effect"));
}

TEST(StudyPoints, StrongScalingKeepsTheBatchAndWeakScalingThatOfARank) {
  const auto all = points(study("nodes = 1,2,4\nstrategies = stage 1\nscaling = strong, weak\n"));
  EXPECT_THAT(names(all), ElementsAre("stage_1-n1x1-b2-g16-r1", "stage_1-n2x1-b2-g16-r1", "stage_1-n4x1-b2-g16-r1",
                                      "stage_1-n2x1-b2-g32-r1", "stage_1-n4x1-b2-g64-r1"));
  EXPECT_THAT(all[0].scalings, ElementsAre(Scaling::strong, Scaling::weak));  // where both curves begin
  EXPECT_THAT(all[4].scalings, ElementsAre(Scaling::weak));
  EXPECT_EQ(all[4].options.zero.stage, 1);
  EXPECT_EQ(all[4].options.comm.ranks_per_node, 1);
}

/// A study measures: it does not fill the disk with the weights of all its runs.
TEST(StudyPoints, LastStepsAreKeptOnlyIfTheStudySaysSo) {
  const auto keeps = [](const std::string& strategies, const std::string& more) {
    return points(study("nodes = 1\nstrategies = " + strategies + "\n", more)).front().options.checkpoint.last;
  };
  EXPECT_FALSE(keeps("stage 1", ""));
  EXPECT_TRUE(keeps("stage 1", "[checkpoint]\nlast = true\n"));
  EXPECT_TRUE(keeps("stage 1 checkpoint.last=true", ""));
}

TEST(StudyPoints, RepeatsAreRunsOfTheirOwn) {
  const auto all = points(study("nodes = 2\nscaling = strong, weak\nrepeats = 2\n"));
  EXPECT_THAT(names(all), ElementsAre("deck-n2x1-b2-g16-r1", "deck-n2x1-b2-g16-r2"));
  for (const StudyPoint& point : all) EXPECT_EQ(point.scalings.size(), 2U);
}

/// Points whose strategies begin with the same 60 characters, or differ only in characters that names of files do not have.
TEST(StudyPoints, NamesDependOnThePointAlone) {
  const std::string optimizer = "deck optimizer.beta1=0.9 optimizer.beta2=0.95 optimizer.epsilon=1e-8 optimizer.lr=";
  for (const auto& [one, other] : {std::pair{optimizer + "0.5", optimizer + "0.25"},
                                   std::pair<std::string, std::string>{"deck data.source=a/b", "deck data.source=a@b"}}) {
    const auto alone = names(points(study("nodes = 1\nstrategies = " + other + "\n")));
    const auto after = names(points(study("nodes = 1\nstrategies = " + one + ", " + other + "\n")));
    ASSERT_EQ(after.size(), 2U);
    EXPECT_NE(after[0], after[1]);
    EXPECT_EQ(after[1], alone[0]);
  }
  EXPECT_THAT(names(points(study("nodes = 1\nstrategies = deck data.source=a_b\n"))),
              ElementsAre("deck_data.source_a_b-n1x1-b2-g16-r1"));
  EXPECT_THAT(refusal("nodes = 1\nstrategies = deck data.source=a train.seed=1, deck data.source=a_train.seed_1\n"),
              HasSubstr("deck data.source=a train.seed=1 and deck data.source=a_train.seed_1 have the same name"));
}

TEST(StudyPoints, BytesArePredictedWithoutANetwork) {
  const auto all = points(study("nodes = 1,2\nstrategies = stage 0, stage 1\n"));
  EXPECT_EQ(all[0].step.sent.total().total(), 0);
  EXPECT_GT(all[1].step.sent.total().inter, 0);
  EXPECT_FALSE(all[1].timed);
  EXPECT_LT(all[3].planned[Kind::moments], all[1].planned[Kind::moments]);
}

TEST(StudyPoints, LargestMicroBatchIsTheLargestDivisorThatFits) {
  const std::string native = "[comm]\ncollectives = native\n";
  const auto largest = points(study("nodes = 1\nmicro = largest\n", native + "[memory]\nlimit = 0.0015\n"));
  const std::size_t micro = largest[0].options.batch.micro;
  EXPECT_LE(largest[0].planned.total(), largest[0].limit);
  ASSERT_LT(micro, 16U);  // so the limit decides
  auto larger = study("nodes = 1\n", native);
  larger.options.batch.micro = 2 * micro;  // the next divisor of 16
  EXPECT_GT(points(larger)[0].planned.total(), largest[0].limit);
}

TEST(StudyPoints, WithoutABatchEveryRankTakesWhatFits) {
  auto asked = study("nodes = 1,4\nmicro = largest\nscaling = weak\nstrategies = stage 3\n", "[memory]\nlimit = 0.005\n");
  asked.options.batch.global = 0;
  for (const StudyPoint& point : points(asked)) {
    const auto ranks = static_cast<std::size_t>(point.grid.ranks());
    EXPECT_EQ(point.options.batch.global, point.options.batch.micro * ranks);
    EXPECT_LE(point.planned.total(), point.limit);
    EXPECT_GT(point.options.batch.micro, 1U);
  }
}

constexpr const char* plenty = "[memory]\nlimit = 1\n";  // GiB

/// On four ranks two pipelines of two stages share 16 sequences, on two ranks one has all of them.
TEST(StudyPoints, PipelinesKeepAMicroBatchForEachStage) {
  const std::string section = "nodes = 2,4\nmicro = largest\nstrategies = deck model.tied_gradient=apart pipeline.size=2";
  const auto all = points(study(section + ", deck model.tied_gradient=apart\n", plenty));
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].options.batch.micro, 8U);  // of 16 sequences
  EXPECT_EQ(all[1].options.batch.micro, 4U);  // of 8
  EXPECT_EQ(all[2].options.batch.micro, 8U) << "ranks without stages have what they had";
  EXPECT_EQ(all[3].options.batch.micro, 4U);
  const auto whole_groups =
      points(study("nodes = 2\nmicro = largest\nstrategies = deck model.tied_gradient=apart model.n_layer=4 pipeline.size=2 "
                   "pipeline.parts=2 pipeline.schedule=interleaved\n",
                   plenty));
  EXPECT_EQ(whole_groups[0].options.batch.micro, 8U);
}

TEST(StudyPoints, PipelinesWithoutABatchHaveAMicroBatchForEachStage) {
  auto asked = study("nodes = 2,4\nscaling = weak\nstrategies = deck model.tied_gradient=apart pipeline.size=2\n");
  asked.options.batch.global = 0;
  const auto all = points(asked);
  EXPECT_EQ(all[0].options.batch.global, 4U);
  EXPECT_EQ(all[1].options.batch.global, 8U);
}

TEST(StudyPoints, PipelinesArePredicted) {
  const auto all =
      points(study("nodes = 2\nstrategies = deck model.tied=false pipeline.size=2, stage 1 model.tied=false\n"));
  EXPECT_GT(all[0].step.sent[plan::OperationKind::send].inter, 0);
  EXPECT_EQ(all[1].step.sent[plan::OperationKind::send].inter, 0);
  EXPECT_LT(all[0].planned[Kind::parameters], all[1].planned[Kind::parameters]);
}

TEST(StudyPoints, NamesThePipelineThatCannotRun) {
  const auto of = [](const std::string& options, const char* nodes = "2") {
    return refusal(text("nodes = ", nodes, "\nstrategies = stage 0, stage 0 model.tied=false ", options, "\n"));
  };
  EXPECT_THAT(of("pipeline.size=2", "1"),
              HasSubstr("study: stage 0 model.tied=false pipeline.size=2, strong scaling, 1 node x 1 rank: a.cfg:12: "
                        "pipeline.size = 2 does not divide the number of ranks (1)"));
  EXPECT_THAT(of("pipeline.size=2 pipeline.schedule=zero_bubble"), HasSubstr("pipeline.schedule = zero_bubble"));
  EXPECT_THAT(of("pipeline.size=2 pipeline.parts=2 pipeline.schedule=interleaved"), HasSubstr("at most 2 parts"));
  EXPECT_THAT(of("pipeline.schedule=gpipe"), HasSubstr("pipeline.schedule = gpipe has no effect"));
}

TEST(StudyPoints, NamesTheStrategyThatCannotRun) {
  EXPECT_THAT(refusal("nodes = 1,3\nstrategies = stage 0\n"),
              HasSubstr("study: stage 0, strong scaling, 3 nodes x 1 rank: a.cfg:9: batch.global = 16"));
  EXPECT_THAT(refusal("nodes = 2\nstrategies = stage 1 zero.qwz=8\n"), HasSubstr("a.cfg:12: zero.qwz = 8 has no effect"));
  EXPECT_THAT(refusal("nodes = 2\nstrategies = stage 2\n", "[memory]\nlimit = 0.0001\n"), HasSubstr("the run needs"));
  EXPECT_THAT(refusal("nodes = 2\n", "[comm]\nranks_per_node = 2\n"), HasSubstr("a.cfg:11: comm.ranks_per_node"));
}

TEST(StudyPoints, NamesThreadsThatNoRankOfTheJobHas) {
  if (kernels::most_threads() == 1) GTEST_SKIP() << "the kernels of this program run on one thread";
  const std::string section = "nodes = 1\ncores_per_rank = 2\nstrategies = stage 0, stage 0 train.threads=";
  EXPECT_EQ(points(study(section + "2\n")).size(), 2U);
  EXPECT_THAT(refusal(section + "3\n"),
              HasSubstr("stage 0 train.threads=3, strong scaling, 1 node x 1 rank: a.cfg:13: train.threads = 3 is above "
                        "study.cores_per_rank = 2; allowed: auto, or from 1 to 2"));
}

/// A job on GPUs needs staging memory of the host only; memory.limit is of all memory that a rank takes.
TEST(StudyPoints, MemoryOfGpusIsNotTheHosts) {
  using device::DeviceKind;
  Ledger planned;
  planned[Kind::staging] = 5;
  planned[Kind::parameters] = 100;
  EXPECT_EQ(host_bytes(planned, DeviceKind::host), 105U);
  EXPECT_EQ(host_bytes(planned, DeviceKind::cuda), 5U);
  config::Options options;
  EXPECT_EQ(limited_bytes(planned, options, DeviceKind::cuda), 5U);
  EXPECT_EQ(limited_bytes(planned, options, DeviceKind::host), 105U);
  options.memory_limit_gib = 1;
  EXPECT_EQ(limited_bytes(planned, options, DeviceKind::cuda), 105U);
}

TEST(StudyPoints, IdentityLeavesOutPlaces) {
  const auto all = points(study("nodes = 1\n"));
  const auto identity = identity_of(all[0].options);
  EXPECT_EQ(identity.at("batch.micro"), "2");
  EXPECT_FALSE(identity.contains("output.dir"));
  EXPECT_FALSE(identity.contains("checkpoint.resume"));
}

}  // namespace of_study_points_test
}  // namespace shoal::app
