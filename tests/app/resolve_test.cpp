// SPDX-License-Identifier: Apache-2.0
// What a run is follows from its options and from what a rank finds where it starts, and from nothing else: no MPI runs
// here.
#include "app/setup/resolve.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shoal/base/error.hpp"
#include "small_options.hpp"

namespace shoal::app {
namespace of_resolve_test {

using test::small_options;

constexpr int ranks = 4;

/// Of the rank `rank` among the ranks of one node.
Surroundings at(int rank, std::size_t data_vocabulary = 0, std::optional<std::size_t> limit = std::nullopt) {
  Surroundings found;
  found.rank = rank;
  found.on_node = ranks;
  found.host.bytes = std::size_t{1} << 30U;
  found.dataset.vocab_size = data_vocabulary;
  found.limit = limit;
  return found;
}

std::size_t states(const ResolvedRun& run) {
  return run.plan.bytes[Kind::parameters] + run.plan.bytes[Kind::master] + run.plan.bytes[Kind::moments];
}

TEST(Resolve, ShardsAreOfTheRanksThatAreAskedFor) {
  config::Options options = small_options();
  options.zero.stage = 3;
  const ResolvedRun run = resolve(options, at(1), ranks, Purpose::train);
  EXPECT_EQ(run.division.ranks, ranks);
  const double whole = static_cast<double>(states(resolve(options, at(0), 1, Purpose::train)));
  EXPECT_NEAR(static_cast<double>(states(run)) / whole, 1.0 / ranks, 0.1);
}

TEST(Resolve, ARankOfAPipelineHasTheStageOfItsPlace) {
  config::Options options = small_options();
  options.model.tied = false;
  options.pipeline.size = 2;
  EXPECT_EQ(resolve(options, at(0), ranks, Purpose::train).stages.shape.stage, 0);
  EXPECT_EQ(resolve(options, at(ranks - 1), ranks, Purpose::train).stages.shape.stage, 1);
}

TEST(Resolve, AVocabularyIsThatOfTheDataUnlessItIsGiven) {
  config::Options options = small_options();
  EXPECT_EQ(resolve(options, at(0, 100), ranks, Purpose::train).options.model.vocab_size, 64U);
  options.model.vocab_size = 0;
  EXPECT_EQ(resolve(options, at(0, 100), ranks, Purpose::train).options.model.vocab_size, 100U);
}

TEST(Resolve, ARunThatTakesMoreThanTheLimitIsRefused) {
  const std::size_t needed = resolve(small_options(), at(0), ranks, Purpose::train).plan.bytes.total();
  EXPECT_NO_THROW(resolve(small_options(), at(0, 0, needed), ranks, Purpose::train));
  EXPECT_THROW(resolve(small_options(), at(0, 0, needed - 1), ranks, Purpose::train), Error);
}

TEST(Resolve, ARefusalSaysWhatSetTheLimit) {
  EXPECT_THAT([] { resolve(small_options(), at(0, 0, 1), ranks, Purpose::train); },
              testing::ThrowsMessage<Error>(testing::Not(testing::HasSubstr("the limit:"))))
      << "memory.limit";
  const std::string group = "/groups/job/memory.max, 4 B for 4 ranks of host";
  EXPECT_THAT(
      [&] {
        Surroundings found = at(0, 0, 1);
        found.limited_by = group;
        resolve(small_options(), std::move(found), ranks, Purpose::train);
      },
      testing::ThrowsMessage<Error>(testing::EndsWith("; the limit: " + group)));
}

}  // namespace of_resolve_test
}  // namespace shoal::app
