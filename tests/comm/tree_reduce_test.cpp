// SPDX-License-Identifier: Apache-2.0
// Compares the reproducible tree with the same tree computed by one rank, bit by bit.
#include "shoal/comm/tree_reduce.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "shoal/base/error.hpp"
#include "support/mpi_main.hpp"
#include "tree_cases.hpp"

namespace shoal::comm {
namespace of_tree_reduce_test {

Communicator& group() { return test::world().all(); }
std::size_t ranks() { return static_cast<std::size_t>(group().size()); }

void expect_same_bits(Span<const std::byte> got, Span<const std::byte> expected, const char* what) {
  ASSERT_EQ(got.size(), expected.size());
  if (got.empty() || std::memcmp(got.data(), expected.data(), got.size()) == 0) return;
  const auto differing = std::mismatch(got.begin(), got.end(), expected.begin()).first;
  ASSERT_EQ(differing, got.end()) << what << ", byte " << differing - got.begin();
}

/// How a buffer is divided: the lengths of the spans of each rank's block, and the gaps after them, which must not change.
struct Layout {
  const char* name;
  std::vector<std::vector<std::size_t>> spans;  // by block
  std::size_t gap;
};

std::size_t elements_with_gaps(const Layout& layout) {
  std::size_t elements = 0;
  for (const auto& block : layout.spans) {
    for (const std::size_t length : block) elements += length + layout.gap;
  }
  return elements;
}

template <typename T>
Blocks blocks_in(std::vector<T>& whole, const Layout& layout) {
  Blocks blocks;
  Span<T> buffer(whole);
  for (const auto& lengths : layout.spans) {
    auto& block = blocks.emplace_back();
    for (const std::size_t length : lengths) {
      block.push_back(bytes_of(buffer.first(length)));
      buffer = buffer.subspan(length + layout.gap);
    }
  }
  return blocks;
}

std::vector<Layout> layouts(std::size_t size_of_element) {
  const std::size_t large = (std::size_t{1} << 20U) / size_of_element + 12'345;  // more than one message
  std::vector<Layout> all(6);
  all[0] = {"one span each", {}, 0};
  all[1] = {"several spans, gaps", {}, 3};
  all[2] = {"several messages", {}, 1};
  all[3] = {"all but the first empty", {}, 0};
  all[4] = {"nothing", {}, 0};
  all[5] = {"more messages than fly at a time", {}, 0};
  for (std::size_t b = 0; b < ranks(); ++b) {
    all[0].spans.push_back({1000});
    all[1].spans.push_back({17, 0, 256 + b, 20'000, 5, 16'384});
    all[2].spans.push_back({large, 100, 2 * large + b, 40, 40});
    all[3].spans.push_back(b == 0 ? std::vector<std::size_t>{300, 44} : std::vector<std::size_t>{});
    all[4].spans.push_back(b == 0 ? std::vector<std::size_t>{0} : std::vector<std::size_t>{});
    all[5].spans.push_back(std::vector<std::size_t>(b % 2 == 0 ? 40 : 23, 20'000));
  }
  return all;
}

template <typename T>
struct Fixture {
  explicit Fixture(const Layout& layout, std::size_t seed = 0)
      : buffer(random_numbers<T>(seed + static_cast<std::size_t>(group().rank()), elements_with_gaps(layout))),
        scratch(tree_scratch_bytes(group().size(), buffer.size() * sizeof(T))) {
    std::vector<std::vector<T>> leaves;
    for (std::size_t r = 0; r < ranks(); ++r) leaves.push_back(random_numbers<T>(seed + r, buffer.size()));
    sum = serial_tree(std::move(leaves));
  }
  std::vector<T> buffer;
  std::vector<std::byte> scratch;
  std::vector<T> sum;
};

template <typename T>
class TreeReduce : public testing::Test {};
using SumTypes = testing::Types<float, bf16, f16>;
TYPED_TEST_SUITE(TreeReduce, SumTypes);

TYPED_TEST(TreeReduce, ReduceScatterIsTheSerialTree) {
  for (const Layout& layout : layouts(sizeof(TypeParam))) {
    Fixture<TypeParam> f(layout);
    tree_reduce_scatter(group(), blocks_in(f.buffer, layout), dtype_of<TypeParam>, f.scratch).wait();
    const auto own = static_cast<std::size_t>(group().rank());
    const Blocks got = blocks_in(f.buffer, layout), expected = blocks_in(f.sum, layout);
    for (std::size_t s = 0; s < got[own].size(); ++s) expect_same_bits(got[own][s], expected[own][s], layout.name);
  }
}

TYPED_TEST(TreeReduce, WithTheAllGatherEveryRankHasTheSerialTree) {
  for (const Layout& layout : layouts(sizeof(TypeParam))) {
    Fixture<TypeParam> f(layout);
    const std::vector<TypeParam> before = f.buffer;
    tree_reduce_scatter(group(), blocks_in(f.buffer, layout), dtype_of<TypeParam>, f.scratch).wait();
    tree_all_gather(group(), blocks_in(f.buffer, layout), f.scratch).wait();
    const Blocks got = blocks_in(f.buffer, layout), expected = blocks_in(f.sum, layout);
    for (std::size_t b = 0; b < got.size(); ++b) {
      for (std::size_t s = 0; s < got[b].size(); ++s) {
        expect_same_bits(got[b][s], expected[b][s], layout.name);
        for (std::size_t i = 0; i < layout.gap; ++i) {  // the gaps belong to no rank
          const auto* end = reinterpret_cast<const TypeParam*>(got[b][s].data() + got[b][s].size()) + i;
          EXPECT_EQ(*end, before[static_cast<std::size_t>(end - f.buffer.data())]) << layout.name;
        }
      }
    }
  }
}

/// Rank 0's spans have gaps between them, those of other ranks are adjacent: only rank 0 packs.
TYPED_TEST(TreeReduce, RanksMayKeepTheirSpansInDifferentPlaces) {
  Layout layout{"apart on rank 0", std::vector<std::vector<std::size_t>>(ranks(), {700, 800, 900}), 0};
  Fixture<TypeParam> f(layout);
  layout.gap = group().rank() == 0 ? 9 : 0;
  std::vector<TypeParam> mine(elements_with_gaps(layout));
  std::size_t at = 0;
  for (const auto& block : blocks_in(mine, layout)) {
    for (const Span<std::byte> span : block) {
      std::memcpy(span.data(), bytes_of(Span<TypeParam>(f.buffer)).data() + at, span.size());
      at += span.size();
    }
  }
  tree_reduce_scatter(group(), blocks_in(mine, layout), dtype_of<TypeParam>, f.scratch).wait();
  tree_all_gather(group(), blocks_in(mine, layout), f.scratch).wait();
  at = 0;
  for (const auto& block : blocks_in(mine, layout)) {
    for (const Span<std::byte> span : block) {
      expect_same_bits(span, bytes_of(Span<TypeParam>(f.sum)).subspan(at, span.size()), layout.name);
      at += span.size();
    }
  }
}

TYPED_TEST(TreeReduce, SeveralInFlightDoNotMix) {
  const Layout layout = layouts(sizeof(TypeParam))[1];
  std::vector<Fixture<TypeParam>> fixtures;
  for (std::size_t i = 0; i < 4; ++i) fixtures.emplace_back(layout, 100 * i);
  std::vector<Request> requests;
  for (Fixture<TypeParam>& f : fixtures)
    requests.push_back(tree_reduce_scatter(group(), blocks_in(f.buffer, layout), dtype_of<TypeParam>, f.scratch));
  std::vector<double> other{1};
  group().all_reduce(Span<double>(other), Reduce::sum).wait();
  EXPECT_EQ(other[0], group().size());
  for (std::size_t i = requests.size(); i-- > 0;) requests[i].wait();
  for (Fixture<TypeParam>& f : fixtures)
    requests[&f - fixtures.data()] = tree_all_gather(group(), blocks_in(f.buffer, layout), f.scratch);
  for (Request& request : requests) request.wait();
  for (Fixture<TypeParam>& f : fixtures) {
    const Blocks got = blocks_in(f.buffer, layout), expected = blocks_in(f.sum, layout);
    for (std::size_t b = 0; b < got.size(); ++b) {
      for (std::size_t s = 0; s < got[b].size(); ++s) expect_same_bits(got[b][s], expected[b][s], layout.name);
    }
  }
}

/// Why the trajectory is the same on 1, 2 and 4 ranks: each rank adds its neighbouring ones of M leaves, then the ranks'
/// tree adds these sums.
SHOAL_RUN_IF(TreeReduce, LeavesDividedOverRanksGiveTheTreeOverAllLeaves, 16 % ranks == 0);
TYPED_TEST(TreeReduce, LeavesDividedOverRanksGiveTheTreeOverAllLeaves) {
  constexpr std::size_t leaves = 16, n = 5000;
  const std::size_t per_rank = leaves / ranks();
  std::vector<std::vector<TypeParam>> all, mine;
  for (std::size_t m = 0; m < leaves; ++m) {
    all.push_back(random_numbers<TypeParam>(m, n));
    if (m / per_rank == static_cast<std::size_t>(group().rank())) mine.push_back(all.back());
  }
  std::vector<TypeParam> buffer = serial_tree(mine), expected = serial_tree(all);
  const Layout layout{"leaves", std::vector<std::vector<std::size_t>>(ranks(), {n / ranks()}), 0};
  std::vector<std::byte> scratch(tree_scratch_bytes(group().size(), n * sizeof(TypeParam)));
  tree_reduce_scatter(group(), blocks_in(buffer, layout), dtype_of<TypeParam>, scratch).wait();
  tree_all_gather(group(), blocks_in(buffer, layout), scratch).wait();
  expect_same_bits(bytes_of(Span<TypeParam>(buffer)), bytes_of(Span<TypeParam>(expected)), "leaves");
}

TEST(TreeScratch, IsBoundedAndChecked) {
  EXPECT_EQ(tree_scratch_bytes(1, 1'000'000), 0U);
  EXPECT_LE(tree_scratch_bytes(8, 4'000'000'000), std::size_t{10} << 20U);
  if (ranks() == 1) return;
  std::vector<float> buffer(100 * ranks());
  std::vector<std::byte> scratch(10);
  const Layout layout{"small scratch", std::vector<std::vector<std::size_t>>(ranks(), {100}), 0};
  EXPECT_THROW((void)tree_reduce_scatter(group(), blocks_in(buffer, layout), DType::f32, scratch), Error);
  EXPECT_THROW((void)tree_reduce_scatter(group(), Blocks(ranks() + 1), DType::f32, scratch), Error);
}

TEST(TreeScratch, BrokenElementsAreRefused) {
  std::vector<std::byte> buffer(6 * ranks()), scratch(tree_scratch_bytes(group().size(), buffer.size()));
  const Layout layout{"a float and a half", std::vector<std::vector<std::size_t>>(ranks(), {6}), 0};
  EXPECT_THROW((void)tree_reduce_scatter(group(), blocks_in(buffer, layout), DType::f32, scratch), Error);
  EXPECT_NO_THROW(tree_all_gather(group(), blocks_in(buffer, layout), scratch).wait());
}

}  // namespace of_tree_reduce_test
}  // namespace shoal::comm
