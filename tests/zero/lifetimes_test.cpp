// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/lifetimes.hpp"

#include <gtest/gtest.h>

#include <random>

namespace shoal::zero {
namespace {

void expect_apart(const std::vector<Lifetime>& buffers, const Places& places) {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_EQ(places.offsets[i] % 64, 0U);
    EXPECT_LE(places.offsets[i] + buffers[i].bytes, places.bytes);
    for (std::size_t k = 0; k < i; ++k) {
      if (!buffers[i].overlaps(buffers[k])) continue;
      EXPECT_TRUE(places.offsets[i] + buffers[i].bytes <= places.offsets[k] ||
                  places.offsets[k] + buffers[k].bytes <= places.offsets[i])
          << "buffers " << k << " and " << i;
    }
  }
}

TEST(Lifetimes, BuffersThatNeverMeetShareOnePlace) {
  const std::vector<Lifetime> buffers = {{640, 0, 1}, {640, 2, 3}, {640, 4, 4}};
  EXPECT_EQ(place(buffers).bytes, 640U);
}

TEST(Lifetimes, BothEndsBelongToALifetime) {
  const std::vector<Lifetime> buffers = {{640, 0, 1}, {640, 1, 2}};
  EXPECT_EQ(place(buffers).bytes, 1280U);
}

TEST(Lifetimes, AWindowOverEqualBuffersTakesItsWidth) {
  std::vector<Lifetime> buffers;
  for (std::size_t i = 0; i < 20; ++i) buffers.push_back({1000, i, i + 2});
  EXPECT_EQ(place(buffers).bytes, 3 * 1024U);
}

TEST(Lifetimes, BuffersThatMeetLieApart) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<Lifetime> buffers;
    for (int i = 0; i < 30; ++i) {
      const std::size_t first = random() % 20;
      buffers.push_back({random() % 5000, first, first + random() % 6});
    }
    expect_apart(buffers, place(buffers));
  }
}

TEST(Lifetimes, NothingTakesNothing) { EXPECT_EQ(place({}).bytes, 0U); }

}  // namespace
}  // namespace shoal::zero
