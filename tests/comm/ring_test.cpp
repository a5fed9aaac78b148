// SPDX-License-Identifier: Apache-2.0
// Where messages are put aside (src/comm/messages.hpp): what is out never overlaps, and no room is given away.
#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <vector>

#include "../../src/comm/messages.hpp"
#include "shoal/base/error.hpp"

namespace shoal::comm {
namespace {

bool overlap(Span<std::byte> a, Span<std::byte> b) {
  return a.data() < b.data() + b.size() && b.data() < a.data() + a.size();
}

TEST(Ring, HandsOutWhatNobodyHas) {
  constexpr std::size_t lines = 32;
  std::vector<std::byte> memory(lines * line);
  Ring ring(memory);
  std::deque<Span<std::byte>> out;
  std::mt19937 random(1);
  std::size_t refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t bytes = 1 + random() % (memory.size() / 3);
    if (const auto taken = ring.take(bytes)) {
      ASSERT_EQ(taken->size(), bytes);
      ASSERT_GE(taken->data(), memory.data());
      ASSERT_LE(taken->data() + bytes, memory.data() + memory.size());
      for (const Span<std::byte> other : out) ASSERT_FALSE(overlap(*taken, other)) << "after " << i;
      out.push_back(*taken);
    } else {
      ASSERT_FALSE(out.empty());
      ++refused;
    }
    while (!out.empty() && random() % 2 == 0) {
      ring.give_back();
      out.pop_front();
    }
  }
  EXPECT_GT(refused, 100U);
}

TEST(Ring, FillsWhatLiesBetween) {
  std::vector<std::byte> memory(4 * line);
  Ring ring(memory);
  for (const std::size_t bytes : {2 * line, line, line}) EXPECT_TRUE(ring.take(bytes).has_value());
  ring.give_back();
  for (const std::size_t i : {0U, 1U}) EXPECT_EQ(ring.take(line)->data(), memory.data() + i * line);
  EXPECT_FALSE(ring.take(1).has_value());
}

TEST(Ring, IsFullWhenAllOfItIsOut) {
  std::vector<std::byte> memory(4 * line);
  Ring ring(memory);
  for (int turn = 0; turn < 3; ++turn) {
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(ring.take(line).has_value()) << i;
    EXPECT_FALSE(ring.take(1).has_value());
    ring.give_back();
    EXPECT_EQ(ring.take(line)->data(), memory.data()) << "goes round to what was taken first";
    EXPECT_FALSE(ring.take(1).has_value());
    for (int i = 0; i < 4; ++i) ring.give_back();
    EXPECT_EQ(ring.take(4 * line)->data(), memory.data()) << "all of it in one piece";
    ring.give_back();
  }
  EXPECT_THROW(static_cast<void>(ring.take(4 * line + 1)), Error);
}

}  // namespace
}  // namespace shoal::comm
