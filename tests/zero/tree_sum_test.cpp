// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/tree_sum.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

namespace shoal::zero {
namespace {

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
        kept.push_back(subtree_sums(granules, own, Span<const double>(sums).subspan(own.begin, own.size())));
        EXPECT_EQ(kept.back().size(), subtree_count(granules, own));
        EXPECT_LE(kept.back().size(), 2 * static_cast<std::size_t>(std::bit_width(granules)));
      }
      values.assign(kept.begin(), kept.end());
      EXPECT_EQ(join_subtrees(granules, owners, values), expected) << granules << " pieces on " << ranks << " ranks";
    }
  }
}

TEST(TreeSum, AnEmptyBufferSumsToZero) { EXPECT_EQ(join_subtrees(0, {{0, 0}}, {{}}), 0.0); }

}  // namespace
}  // namespace shoal::zero
