// SPDX-License-Identifier: Apache-2.0
#include "zero/lifetimes.hpp"

#include <gtest/gtest.h>

#include <random>

namespace shoal::zero {
namespace of_lifetimes_test {

bool overlap(const Lifetime& one, const Lifetime& other) { return one.first <= other.last && other.first <= one.last; }

void expect_disjoint(const std::vector<Lifetime>& buffers, const MemoryLayout& layout) {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_EQ(layout.offsets[i] % 64, 0U);
    EXPECT_LE(layout.offsets[i] + buffers[i].bytes, layout.bytes);
    for (std::size_t k = 0; k < i; ++k) {
      if (!overlap(buffers[i], buffers[k])) continue;
      EXPECT_TRUE(layout.offsets[i] + buffers[i].bytes <= layout.offsets[k] ||
                  layout.offsets[k] + buffers[k].bytes <= layout.offsets[i])
          << "buffers " << k << " and " << i;
    }
  }
}

TEST(Lifetimes, BuffersThatAreNeverUsedTogetherHaveTheSameMemory) {
  const std::vector<Lifetime> buffers = {{640, 0, 1}, {640, 2, 3}, {640, 4, 4}};
  EXPECT_EQ(lay_out(buffers).bytes, 640U);
}

TEST(Lifetimes, BothEndsBelongToALifetime) {
  const std::vector<Lifetime> buffers = {{640, 0, 1}, {640, 1, 2}};
  EXPECT_EQ(lay_out(buffers).bytes, 1280U);
}

TEST(Lifetimes, AWindowOverEqualBuffersTakesItsWidth) {
  std::vector<Lifetime> buffers;
  for (std::size_t i = 0; i < 20; ++i) buffers.push_back({1000, i, i + 2});
  EXPECT_EQ(lay_out(buffers).bytes, 3 * 1024U);
}

/// As many as the gathers of a step of a pipeline with thousands of turns.
TEST(Lifetimes, ManyShortOnesTakeWhatAFewTake) {
  std::vector<Lifetime> buffers;
  for (std::size_t i = 0; i < 100'000; ++i) buffers.push_back({1000, i, i + 2});
  EXPECT_EQ(lay_out(buffers).bytes, 3 * 1024U);
}

TEST(Lifetimes, BuffersThatAreUsedTogetherDoNotOverlap) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<Lifetime> buffers;
    for (int i = 0; i < 30; ++i) {
      const std::size_t first = random() % 20;
      buffers.push_back({random() % 5000, first, first + random() % 6});
    }
    expect_disjoint(buffers, lay_out(buffers));
  }
}

TEST(Lifetimes, NothingTakesNothing) { EXPECT_EQ(lay_out({}).bytes, 0U); }

}  // namespace of_lifetimes_test
}  // namespace shoal::zero
