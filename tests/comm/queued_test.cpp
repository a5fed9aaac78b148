// SPDX-License-Identifier: Apache-2.0
// The reproducible tree on queued groups: everything is enqueued at the start, and the results have the bits of the form
// that the host drives, for every number of ranks that share a node.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "queued_wrapper.hpp"
#include "shoal/comm/tree_reduce.hpp"
#include "support/mpi_main.hpp"
#include "tree_cases.hpp"

namespace shoal::comm {
namespace of_queued_test {

Communicator& group_of_all() { return test::world().all(); }

using Lengths = std::vector<std::vector<std::size_t>>;  // elements, by block and span

/// The powers of two that divide the number of ranks.
std::vector<int> places() {
  std::vector<int> counts;
  for (int count = 1; group_of_all().size() % count == 0; count *= 2) counts.push_back(count);
  return counts;
}

/// Some with one rank's block alone, and with empty ones; the last one is a single element.
std::vector<Lengths> cases() {
  const auto ranks = static_cast<std::size_t>(group_of_all().size());
  std::vector<Lengths> all(4, Lengths(ranks));
  for (std::size_t b = 0; b < ranks; ++b) {
    all[0][b] = {1000};
    all[1][b] = {b, 7, 3 * b + 1};
    all[2][b] = b + 1 == ranks ? std::vector<std::size_t>{333, 1, 64} : std::vector<std::size_t>{0};
    all[3][b] = {b == 0 ? std::size_t{1} : 0};
  }
  return all;
}

template <typename T>
struct Message {
  explicit Message(const Lengths& lengths) {
    std::size_t elements = 0;
    for (const auto& block : lengths) elements += std::accumulate(block.begin(), block.end(), std::size_t{0});
    data = random_numbers<T>(static_cast<std::size_t>(group_of_all().rank()), elements);
    std::size_t begin = 0;
    for (const auto& block : lengths) {
      blocks.emplace_back();
      for (const std::size_t count : block) {
        blocks.back().push_back(bytes_of(Span<T>(data).subspan(begin, count)));
        begin += count;
      }
    }
    scratch.resize(tree_scratch_bytes(group_of_all().size(), elements * sizeof(T)));
  }
  const Block& own() const { return blocks[static_cast<std::size_t>(group_of_all().rank())]; }
  std::vector<T> data;
  Blocks blocks;
  std::vector<std::byte> scratch;
};

std::vector<std::byte> bytes_in(const Block& block) {
  std::vector<std::byte> bytes;
  for (const Span<std::byte> span : block) bytes.insert(bytes.end(), span.begin(), span.end());
  return bytes;
}

template <typename T>
struct Queued : ::testing::Test {};
using Types = ::testing::Types<float, bf16, f16>;
TYPED_TEST_SUITE(Queued, Types);

template <typename T>
void expect_host_driven_sums(const Lengths& lengths) {
  Message<T> host(lengths);
  tree_reduce_scatter(group_of_all(), host.blocks, dtype_of<T>, host.scratch).wait();
  for (const int on_node : places()) {
    QueuedWrapper group(group_of_all(), on_node);
    Message<T> queued(lengths);
    Request request = tree_reduce_scatter(group, queued.blocks, dtype_of<T>, queued.scratch);
    EXPECT_EQ(bytes_in(queued.own()), bytes_in(host.own())) << on_node << " ranks a node, before wait()";
    request.wait();
  }
}

TYPED_TEST(Queued, SumsHaveTheBitsOfTheHostDrivenTree) {
  for (const Lengths& lengths : cases()) expect_host_driven_sums<TypeParam>(lengths);
}

/// Bytes, whose type does not matter.
TEST(QueuedTree, BlocksAreGathered) {
  for (const Lengths& lengths : cases()) {
    Message<float> host(lengths);
    tree_all_gather(group_of_all(), host.blocks, host.scratch).wait();
    for (const int on_node : places()) {
      QueuedWrapper group(group_of_all(), on_node);
      Message<float> queued(lengths);
      Request request = tree_all_gather(group, queued.blocks, queued.scratch);
      EXPECT_EQ(std::memcmp(queued.data.data(), host.data.data(), host.data.size() * sizeof(float)), 0)
          << on_node << " ranks a node, before wait()";
      request.wait();
    }
  }
}

/// Terms that do not fit into the scratch memory are received in pieces.
TEST(QueuedTree, SumsLargeBlocksInPieces) {
  const auto ranks = static_cast<std::size_t>(group_of_all().size());
  Lengths lengths(ranks, {40});
  lengths.front() = {1'000'001, 500'000};
  expect_host_driven_sums<float>(lengths);
  if (ranks < 3) return;  // the term of one other rank has room
  QueuedWrapper group(group_of_all());
  Message<float> message(lengths);
  tree_reduce_scatter(group, message.blocks, DType::f32, message.scratch).wait();
  EXPECT_GT(group.exchanges(), 1);
}

/// Small messages need one exchange within the node and one across nodes.
TEST(QueuedTree, TakesOneExchangeForEachLevel) {
  for (const int on_node : places()) {
    QueuedWrapper group(group_of_all(), on_node);
    Message<float> message(cases().front());
    tree_reduce_scatter(group, message.blocks, DType::f32, message.scratch).wait();
    tree_all_gather(group, message.blocks, message.scratch).wait();
    const int levels = (on_node > 1 ? 1 : 0) + (on_node < group.size() ? 1 : 0);
    EXPECT_EQ(group.exchanges(), 2 * levels) << on_node << " ranks a node";
  }
}

}  // namespace of_queued_test
}  // namespace shoal::comm
