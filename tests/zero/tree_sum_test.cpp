// SPDX-License-Identifier: Apache-2.0
#include "zero/tree_sum.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "kernels/runtime_environment.hpp"

namespace shoal::zero {
namespace of_tree_sum_test {

std::vector<double> noise(std::size_t n) {
  std::mt19937_64 generator(7);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<double> values(n);
  for (double& v : values) v = std::ldexp(uniform(generator), static_cast<int>(generator() % 40));
  return values;
}

/// The tree, level by level: pairs are added, and a last one without a partner moves up.
double serial_tree(std::vector<double> values) {
  if (values.empty()) return 0;
  while (values.size() > 1) {
    std::vector<double> next;
    for (std::size_t i = 0; i < values.size(); i += 2) {
      next.push_back(i + 1 < values.size() ? values[i] + values[i + 1] : values[i]);
    }
    values = next;
  }
  return values[0];
}

/// Sums of the subtrees of a rank, which has the granules `own`.
std::vector<double> sums_of_subtrees(const std::vector<double>& sums, Range own) {
  const kernels::Subtrees trees = subtrees(sums.size(), own);
  std::vector<double> values(sums.begin() + static_cast<std::ptrdiff_t>(own.begin),
                             sums.begin() + static_cast<std::ptrdiff_t>(own.end));
  std::vector<double> result(trees.count);
  kernels::sum_subtrees(trees, values.data(), result.data());
  return result;
}

std::vector<Range> cut(std::size_t granules, std::size_t ranks) {
  std::vector<Range> owners;
  const std::size_t each = (granules + ranks - 1) / ranks;
  for (std::size_t r = 0; r < ranks; ++r)
    owners.push_back({std::min(granules, r * each), std::min(granules, (r + 1) * each)});
  return owners;
}

TEST(TreeSum, IsTheSameBitsForAnyNumberOfRanks) {
  for (const std::size_t granules : {1UL, 2UL, 3UL, 7UL, 8UL, 100UL, 1000UL, 1023UL, 4097UL}) {
    const std::vector<double> sums = noise(granules);
    const double expected = serial_tree(sums);
    for (std::size_t ranks = 1; ranks <= 9; ++ranks) {
      const std::vector<Range> owners = cut(granules, ranks);
      std::vector<std::vector<double>> kept;
      std::vector<Span<const double>> values;
      for (const Range& own : owners) {
        kept.push_back(sums_of_subtrees(sums, own));
        EXPECT_EQ(kept.back().size(), subtree_count(granules, own));
        EXPECT_LE(kept.back().size(), 2 * static_cast<std::size_t>(std::bit_width(granules)));
      }
      values.assign(kept.begin(), kept.end());
      EXPECT_EQ(join_subtrees(granules, owners, values), expected) << granules << " pieces on " << ranks << " ranks";
    }
  }
}

/// If each granule has an owner of its own, join_subtrees() alone adds the whole tree.
TEST(TreeSum, TheKernelAddsAsJoinSubtreesDoes) {
  for (const std::size_t granules : {1UL, 2UL, 3UL, 5UL, 6UL, 7UL, 8UL, 100UL, 1000UL, 1023UL, 1025UL, 4097UL, 9000UL}) {
    const std::vector<double> sums = noise(granules);
    std::vector<Range> owners;
    std::vector<Span<const double>> values;
    for (std::size_t i = 0; i < granules; ++i) {
      owners.push_back({i, i + 1});
      values.push_back(Span<const double>(sums).subspan(i, 1));
    }
    EXPECT_EQ(sums_of_subtrees(sums, {0, granules}), std::vector<double>{join_subtrees(granules, owners, values)})
        << granules << " pieces";
  }
}

TEST(TreeSum, SubtreesFollowEachOther) {
  for (const Range own : {Range{0, 1000}, Range{1, 999}, Range{250, 500}, Range{333, 334}, Range{500, 500}}) {
    const kernels::Subtrees trees = subtrees(1000, own);
    EXPECT_EQ(trees.count, subtree_count(1000, own));
    EXPECT_EQ(trees.begin[0], 0U);
    for (std::size_t i = 0; i < trees.count; ++i) EXPECT_LT(trees.begin[i], trees.begin[i + 1]);
    EXPECT_EQ(trees.begin[trees.count], own.size());
  }
  const std::size_t most = (std::size_t{1} << 32U) - 1;  // the most granules that a shard may have
  EXPECT_LE(subtrees(most + 2, {1, most + 1}).count, kernels::Subtrees::most);
}

TEST(TreeSum, AnEmptyBufferSumsToZero) { EXPECT_EQ(join_subtrees(0, {{0, 0}}, {{}}), 0.0); }

}  // namespace of_tree_sum_test
}  // namespace shoal::zero
