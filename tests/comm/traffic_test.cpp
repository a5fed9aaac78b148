// SPDX-License-Identifier: Apache-2.0
// The counted bytes are equal to those of the formulas. Operations and waits are events in the trace.
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "shoal/base/trace.hpp"
#include "shoal/comm/tree_reduce.hpp"
#include "support/mpi_main.hpp"

namespace shoal::comm {
namespace of_traffic_test {

class TrafficOf : public testing::Test {
 protected:
  void SetUp() override { reset_traffic(); }
  void TearDown() override {
    if (divided_) test::world().make_groups(test::comm_options());
  }
  void divide_in_nodes_of(int ranks) {
    test::world().make_groups(test::comm_options(ranks));
    divided_ = true;
  }

  static Blocks blocks_of(Span<float> data) {
    const std::size_t n = data.size() / ranks();
    Blocks blocks;
    for (std::size_t b = 0; b < ranks(); ++b) blocks.push_back({bytes_of(data.subspan(b * n, n))});
    return blocks;
  }
  static std::size_t ranks() { return static_cast<std::size_t>(test::world().size()); }

 private:
  bool divided_ = false;
};

TEST_F(TrafficOf, LibraryCollectivesIsTheirLowerBound) {
  Communicator& group = test::world().all();
  std::vector<float> data(120 * ranks());
  group.all_reduce(Span<float>(data), Reduce::sum).wait();
  group.all_gather(bytes_of(Span<float>(data).first(120)), bytes_of(Span<float>(data))).wait();
  group.broadcast(bytes_of(Span<float>(data)), 0).wait();
  group.barrier().wait();
  const auto sent = traffic();
  if (ranks() == 1) {
    EXPECT_TRUE(sent.empty());
    return;
  }
  EXPECT_EQ(sent.at("all_reduce").total(), 2 * 480 * (ranks() - 1));
  EXPECT_EQ(sent.at("all_gather").total(), 480 * (ranks() - 1));
  EXPECT_EQ(sent.at("broadcast").total(), group.rank() == 0 ? 480 * ranks() : 0);
  EXPECT_EQ(sent.at("barrier").total(), 0U);
  EXPECT_EQ(sent.at("all_reduce").inter, 0U);  // one node
}

TEST_F(TrafficOf, TreesIsThatOfARing) {
  std::vector<float> data(1200 * ranks());
  std::vector<std::byte> scratch(tree_scratch_bytes(test::world().size(), data.size() * sizeof(float)));
  tree_reduce_scatter(test::world().all(), blocks_of(data), DType::f32, scratch).wait();
  tree_all_gather(test::world().all(), blocks_of(data), scratch).wait();
  const auto sent = traffic();
  if (ranks() == 1) {
    EXPECT_TRUE(sent.empty());
    return;
  }
  EXPECT_EQ(sent.at("reduce_scatter").total(), 4800 * (ranks() - 1));
  EXPECT_EQ(sent.at("all_gather").total(), 4800 * (ranks() - 1));
  EXPECT_EQ(sent.count("send") + sent.count("receive"), 0U) << "a tree's messages are not counted apart";
}

/// The sum along the binary tree over the indices, low bits first; missing leaves are skipped.
float serial_tree(std::vector<float> leaves) {
  while (leaves.size() > 1) {
    std::vector<float> sums;
    for (std::size_t i = 0; i < leaves.size(); i += 2) {
      sums.push_back(i + 1 < leaves.size() ? leaves[i] + leaves[i + 1] : leaves[i]);
    }
    leaves = std::move(sums);
  }
  return leaves.front();
}

/// comm/tree_reduce.hpp, [Note: the tree on nodes]: 2 x 2, 3 x 2, 6 x 2, 3 x 4 ranks, and one rank a node.
TEST_F(TrafficOf, TreesBetweenNodesIsTheLeastAndTheSumIsThatOfTheFlatTree) {
  for (const std::size_t per_node : {1U, 2U, 4U}) {
    if (ranks() == 1 || ranks() % per_node != 0) continue;
    divide_in_nodes_of(static_cast<int>(per_node));
    const std::size_t nodes = ranks() / per_node, bytes = 400 * ranks();
    const auto leaf = [](std::size_t rank) { return 1.0F / static_cast<float>(7 * rank + 3); };
    std::vector<float> data(100 * ranks(), leaf(static_cast<std::size_t>(test::world().rank()))), leaves;
    for (std::size_t r = 0; r < ranks(); ++r) leaves.push_back(leaf(r));
    std::vector<std::byte> scratch(tree_scratch_bytes(test::world().size(), bytes));

    reset_traffic();
    tree_reduce_scatter(test::world().all(), blocks_of(data), DType::f32, scratch).wait();
    tree_all_gather(test::world().all(), blocks_of(data), scratch).wait();
    for (const float sum : data) ASSERT_EQ(sum, serial_tree(leaves)) << "nodes of " << per_node;
    const auto all = traffic();
    for (const char* operation : {"reduce_scatter", "all_gather"}) {
      const Traffic& sent = all.at(operation);
      EXPECT_EQ(sent.intra, bytes - bytes / per_node) << operation << ", nodes of " << per_node;
      EXPECT_EQ(sent.inter, bytes / per_node / nodes * (nodes - 1)) << operation << ", nodes of " << per_node;
    }
  }
}

SHOAL_RUN_IF(TrafficOf, LibrarysIsDividedAsTheOtherRanksAre, ranks == 4);
TEST_F(TrafficOf, LibrarysIsDividedAsTheOtherRanksAre) {
  divide_in_nodes_of(2);
  std::vector<float> data(4 * 100);
  test::world().all().all_gather(bytes_of(Span<float>(data).first(100)), bytes_of(Span<float>(data))).wait();
  EXPECT_EQ(traffic().at("all_gather").intra, 400U);
  EXPECT_EQ(traffic().at("all_gather").inter, 800U);
}

SHOAL_RUN_IF(TrafficOf, PointToPointIsWhatIsSent, ranks > 1);
TEST_F(TrafficOf, PointToPointIsWhatIsSent) {
  Communicator& group = test::world().all();
  std::vector<float> out(10), in(10);
  const int next = (group.rank() + 1) % group.size(), before = (group.rank() + group.size() - 1) % group.size();
  Request receiving = group.receive(bytes_of(Span<float>(in)), before, 0);
  group.send(bytes_of(Span<float>(out)), next, 0).wait();
  receiving.wait();
  EXPECT_EQ(traffic().at("send").total(), 40U);
  EXPECT_EQ(traffic().at("receive").total(), 0U);
}

SHOAL_RUN_IF(TrafficOf, OperationsAndWaitsAreEvents, ranks > 1);
TEST_F(TrafficOf, OperationsAndWaitsAreEvents) {
  trace::start(trace::Level::comm, 100);
  trace::set_step(7);
  std::vector<float> data(100'000 * ranks());
  std::vector<std::byte> scratch(tree_scratch_bytes(test::world().size(), data.size() * sizeof(float)));
  {
    Request reducing;
    const trace::OnBehalfOf another_runs(5);
    {
      const trace::OnBehalfOf sums_are_of(4);
      reducing = tree_reduce_scatter(test::world().all(), blocks_of(data), DType::f32, scratch);
    }
    reducing.wait();
  }
  test::world().node().barrier().wait();
  const std::vector<trace::Event> events = trace::drain();
  trace::stop();
  trace::set_step(0);

  int operations = 0, waits = 0, barriers = 0;
  for (const trace::Event& event : events) {
    const std::string& name = trace::names()[static_cast<std::size_t>(event.name)];
    EXPECT_EQ(event.step, 7);
    EXPECT_GE(event.duration_ns, 0);
    if (event.kind == static_cast<std::uint16_t>(trace::Kind::collective) && name == "reduce_scatter") {
      ++operations;
      EXPECT_EQ(event.bytes, 400'000 * (ranks() - 1));
      EXPECT_EQ(event.group, 0);
      EXPECT_EQ(event.unit, 4) << "of the unit that it was started for";
    } else if (event.kind == static_cast<std::uint16_t>(trace::Kind::collective) && name == "barrier") {
      ++barriers;
      EXPECT_EQ(event.group, 1);
      EXPECT_EQ(event.unit, -1);
    } else if (event.kind == static_cast<std::uint16_t>(trace::Kind::wait) && name == "reduce_scatter") {
      ++waits;
      EXPECT_EQ(event.group, 0);
      EXPECT_EQ(event.unit, 4);
    }
  }
  EXPECT_EQ(operations, 1);
  EXPECT_EQ(barriers, 1);
  EXPECT_LE(waits, 1);  // none if it was complete at once
  EXPECT_LE(events.size(), 4U) << "messages of the tree are no events of their own";
}

}  // namespace of_traffic_test
}  // namespace shoal::comm
