// SPDX-License-Identifier: Apache-2.0
// Tensor, data-parallel and pipeline ranks: the numbers of ranks without messages, on all grids of up to 8 ranks, and the
// groups that World makes on the ranks of this test.
#include "shoal/comm/axes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "shoal/base/error.hpp"
#include "support/mpi_main.hpp"

namespace shoal::comm {
namespace of_axes_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

Topology nodes_of(int ranks, int per_node) {
  Topology topology;
  for (int rank = 0; rank < ranks; ++rank) {
    topology.node_of.push_back(rank / per_node);
    topology.hosts.push_back("node" + std::to_string(rank / per_node));
  }
  return topology;
}

/// Calls check(axes) for all grids of this many ranks.
template <typename Check>
void for_all_axes(int ranks, Check check) {
  for (int tensor = 1; tensor <= ranks; ++tensor) {
    for (int pipeline = 1; tensor * pipeline <= ranks; ++pipeline) {
      if (ranks % (tensor * pipeline) == 0) check(Axes{tensor, pipeline});
    }
  }
}

/// The ranks of the same group, ascending.
std::vector<int> members(const GroupKind& kind, int rank) {
  std::vector<int> found;
  for (int other = 0; other < static_cast<int>(kind.part_of.size()); ++other) {
    if (kind.part_of[static_cast<std::size_t>(other)] == kind.part_of[static_cast<std::size_t>(rank)])
      found.push_back(other);
  }
  return found;
}

TEST(Axes, TensorRanksAreNeighboursAndStagesAreFarApart) {
  const Axes axes{2, 2};  // 8 ranks: 2 tensor x 2 data x 2 pipeline
  EXPECT_EQ(axes.data(8), 2);
  EXPECT_EQ(axes.position(5, 8), (Axes::Position{1, 0, 1}));
  const std::vector<GroupKind> kinds = axis_kinds(nodes_of(8, 4), axes);
  ASSERT_EQ(kinds.size(), 6U);
  EXPECT_EQ(kinds[0].name, "data");
  EXPECT_THAT(members(kinds[0], 5), ElementsAre(5, 7));
  EXPECT_EQ(kinds[1].name, "tensor");
  EXPECT_THAT(members(kinds[1], 5), ElementsAre(4, 5));
  EXPECT_EQ(kinds[2].name, "pipeline");
  EXPECT_THAT(members(kinds[2], 5), ElementsAre(1, 5));
  EXPECT_EQ(kinds[3].name, "model");
  EXPECT_THAT(members(kinds[3], 5), ElementsAre(0, 1, 4, 5));
  EXPECT_EQ(kinds[4].name, "data/node");
  EXPECT_THAT(members(kinds[4], 5), ElementsAre(5, 7));
  EXPECT_EQ(kinds[5].name, "data/across");
  EXPECT_THAT(members(kinds[5], 5), ElementsAre(5));
}

TEST(Axes, EachRankHasOnePosition) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for_all_axes(ranks, [&](const Axes& axes) {
      for (int rank = 0; rank < ranks; ++rank) {
        const Axes::Position at = axes.position(rank, ranks);
        EXPECT_EQ(axes.rank(at, ranks), rank);
        EXPECT_TRUE(at.tensor < axes.tensor && at.data < axes.data(ranks) && at.pipeline < axes.pipeline);
      }
      for (const int per_node : {1, 2, 3, ranks}) {
        const Topology topology = nodes_of(ranks, per_node);
        const std::vector<GroupKind> kinds = axis_kinds(topology, axes);
        for (int rank = 0; rank < ranks; ++rank) {
          EXPECT_EQ(members(kinds[0], rank).size(), static_cast<std::size_t>(axes.data(ranks)));
          EXPECT_EQ(members(kinds[1], rank).size(), static_cast<std::size_t>(axes.tensor));
          EXPECT_EQ(members(kinds[2], rank).size(), static_cast<std::size_t>(axes.pipeline));
          EXPECT_EQ(members(kinds[3], rank).size(), static_cast<std::size_t>(axes.model()));
          // data/node and data/across divide the group `data` as node and across divide all ranks.
          const std::vector<int> data = members(kinds[0], rank);
          const Topology alone = topology_of(topology, data);
          const auto own = static_cast<int>(std::find(data.begin(), data.end(), rank) - data.begin());
          std::vector<int> node, across;
          for (int i = 0; i < alone.ranks(); ++i) {
            const auto at = static_cast<std::size_t>(i);
            if (alone.node_of[at] == alone.node_of[static_cast<std::size_t>(own)]) node.push_back(data[at]);
            if (alone.local_of(i) == alone.local_of(own)) across.push_back(data[at]);
          }
          EXPECT_EQ(members(kinds[4], rank), node);
          EXPECT_EQ(members(kinds[5], rank), across);
        }
      }
    });
  }
  EXPECT_THROW(axis_kinds(nodes_of(6, 6), {2, 2}), Error);
}

TEST(Axes, TheTopologyOfSomeRanksNumbersTheirNodes) {
  const Topology of = topology_of(nodes_of(8, 2), {2, 3, 6, 7});
  EXPECT_THAT(of.node_of, ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(of.hosts, ElementsAre("node1", "node1", "node3", "node3"));
  EXPECT_EQ(describe_tree(of), "within nodes of 2 ranks first, then across 2 nodes");
}

class GroupsAlongAxes : public testing::Test {
 protected:
  void TearDown() override { test::world().make_groups(test::comm_options()); }
};

/// The numbers in all() of a group's ranks, in the order of the group.
std::vector<int> gathered(World& world, Communicator& group) {
  const std::vector<int> own = {world.rank()};  // not a local int: over NCCL vectors stand for the device's memory
  std::vector<int> all(static_cast<std::size_t>(group.size()));
  group.all_gather(const_bytes_of(Span<const int>(own)), bytes_of(Span<int>(all))).wait();
  return all;
}

TEST_F(GroupsAlongAxes, HaveTheirRanksInOrder) {
  World& world = test::world();
  const int ranks = world.size();
  // Making groups takes long where ranks share cores, so not all grids are tried here.
  for (const Axes& axes : {Axes{1, 2}, Axes{2, 2}}) {
    if (ranks % axes.model() != 0) continue;
    world.make_groups(test::comm_options(ranks / 2), axes);
    const std::vector<GroupKind> kinds = axis_kinds(world.topology(), axes);
    const std::vector<Communicator*> groups = {&world.data(),  &world.tensor(),    &world.pipeline(),
                                               &world.model(), &world.data_node(), &world.data_across()};
    for (std::size_t i = 0; i < groups.size(); ++i) {
      EXPECT_EQ(gathered(world, *groups[i]), members(kinds[i], world.rank())) << kinds[i].name;
      EXPECT_EQ(world.group_kinds()[3 + i].name, kinds[i].name) << "all, node and across keep their places in the trace";
    }
    EXPECT_EQ(world.data().rank(), world.position().data);
    EXPECT_EQ(world.pipeline().rank(), world.position().pipeline);
    EXPECT_EQ(world.tensor().rank(), world.position().tensor);
    const Topology data = world.data_topology();
    ASSERT_EQ(data.ranks(), world.data().size());
    for (int other = 0; other < data.ranks(); ++other) {
      EXPECT_EQ(world.data().same_node(other), data.node_of[static_cast<std::size_t>(other)] ==
                                                   data.node_of[static_cast<std::size_t>(world.data().rank())]);
    }
  }
}

TEST(AxesOfOneRank, MakeNoGroups) {
  World& world = test::world();
  EXPECT_EQ(&world.data(), &world.all());
  EXPECT_EQ(&world.data_node(), &world.node());
  EXPECT_EQ(&world.data_across(), &world.across());
  EXPECT_EQ(world.group_kinds().size(), 3U);
  EXPECT_EQ(world.pipeline().size(), 1);
}

TEST_F(GroupsAlongAxes, MustDivideTheRanksAndBeTheSameEverywhere) {
  World& world = test::world();
  EXPECT_THAT(
      [&] {
        world.make_groups(test::comm_options(), Axes{1, world.size() + 1});
      },
      ThrowsMessage<Error>(HasSubstr("do not divide the number of ranks")));
  if (world.size() == 2) {
    EXPECT_THAT(
        [&] {
          world.make_groups(test::comm_options(), world.rank() == 0 ? Axes{} : Axes{1, 2});
        },
        ThrowsMessage<Error>(HasSubstr("rank 1 was given other comm options")));
  }
}

}  // namespace of_axes_test
}  // namespace shoal::comm
