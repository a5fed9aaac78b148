// SPDX-License-Identifier: Apache-2.0
// The groups of ranks, on one node and on nodes that comm.ranks_per_node makes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "shoal/base/error.hpp"
#include "support/mpi_main.hpp"

namespace shoal::comm {
namespace of_groups_test {

using testing::HasSubstr;
using testing::ThrowsMessage;

class GroupsOf : public testing::Test {
 protected:
  static World& divided(int ranks_per_node) {
    test::world().make_groups(test::comm_options(ranks_per_node));
    return test::world();
  }
  void TearDown() override { test::world().make_groups(test::comm_options()); }
};

std::int64_t sum_of_ranks(World& world, Communicator& group) {
  std::vector<std::int64_t> sum{world.rank()};
  group.all_reduce(Span<std::int64_t>(sum), Reduce::sum).wait();
  return sum[0];
}

TEST_F(GroupsOf, OneNode) {
  World& world = test::world();
  EXPECT_EQ(world.nodes(), 1);
  EXPECT_EQ(world.all().size(), world.size());
  EXPECT_EQ(world.node().size(), world.size());
  EXPECT_EQ(world.across().size(), 1);
  EXPECT_EQ(world.all().rank(), world.rank());
  EXPECT_EQ(world.topology().hosts.size(), static_cast<std::size_t>(world.size()));
  EXPECT_EQ(sum_of_ranks(world, world.all()), world.size() * (world.size() - 1) / 2);
}

TEST_F(GroupsOf, NodesOfOneRank) {
  World& world = divided(1);
  EXPECT_EQ(world.nodes(), world.size());
  EXPECT_EQ(world.node().size(), 1);
  EXPECT_EQ(world.across().size(), world.size());
  for (int r = 0; r < world.size(); ++r) {
    EXPECT_EQ(world.all().same_node(r), r == world.rank());
    EXPECT_EQ(world.across().same_node(r), r == world.rank());
  }
  EXPECT_EQ(sum_of_ranks(world, world.node()), world.rank());
  EXPECT_EQ(sum_of_ranks(world, world.across()), world.size() * (world.size() - 1) / 2);
}

SHOAL_RUN_IF(GroupsOf, NodesOfTwoRanks, ranks % 2 == 0);
TEST_F(GroupsOf, NodesOfTwoRanks) {
  World& world = divided(2);
  const int first = world.rank() / 2 * 2;
  EXPECT_EQ(world.nodes(), world.size() / 2);
  EXPECT_EQ(world.node().size(), 2);
  EXPECT_EQ(world.node().rank(), world.rank() % 2);
  EXPECT_EQ(sum_of_ranks(world, world.node()), 2 * first + 1);
  for (int r = 0; r < world.size(); ++r) EXPECT_EQ(world.all().same_node(r), r / 2 == world.rank() / 2);
  EXPECT_EQ(world.across().size(), world.nodes());
  EXPECT_EQ(world.across().rank(), world.rank() / 2);
  for (int r = 0; r < world.size(); ++r) EXPECT_EQ(world.topology().node_of[static_cast<std::size_t>(r)], r / 2);
  const std::int64_t n = world.nodes();
  EXPECT_EQ(sum_of_ranks(world, world.across()), n * (n - 1) + n * (world.rank() % 2));
}

TEST_F(GroupsOf, WhatDoesNotDivideIsRefused) {
  CommOptions options;
  options.ranks_per_node = test::world().size() + 1;
  EXPECT_THAT([&] { test::world().make_groups(options); }, ThrowsMessage<Error>(HasSubstr("comm.ranks_per_node")));
}

SHOAL_RUN_IF(GroupsOf, RanksWithOtherOptionsAreNamed, ranks > 1);
TEST_F(GroupsOf, RanksWithOtherOptionsAreNamed) {
  World& world = test::world();
  CommOptions options;
  if (world.rank() == world.size() - 1) options.bucket_mb = 3;
  EXPECT_THAT([&] { world.make_groups(options); },
              ThrowsMessage<Error>(HasSubstr("rank " + std::to_string(world.size() - 1) + " was given other comm options")));
}

TEST(Library, ItsVersionIsALineWithoutTabs) {
  const auto [name, version] = library_version();
  EXPECT_EQ(name, "MPI");
  EXPECT_FALSE(version.empty());
  EXPECT_EQ(version.find_first_of("\n\t"), std::string::npos);
}

}  // namespace of_groups_test
}  // namespace shoal::comm
