// SPDX-License-Identifier: Apache-2.0
// The ring buffer for messages (src/comm/operations/messages.hpp): regions in use never overlap, and no memory is lost.
#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <vector>

#include "comm/operations/messages.hpp"
#include "shoal/base/error.hpp"

namespace shoal::comm {
namespace of_ring_buffer_test {

bool overlap(Span<std::byte> a, Span<std::byte> b) {
  return a.data() < b.data() + b.size() && b.data() < a.data() + a.size();
}

TEST(RingBuffer, HandsOutWhatNobodyHas) {
  constexpr std::size_t lines = 32;
  std::vector<std::byte> memory(lines * cache_line);
  RingBuffer ring(memory);
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
    while (!out.empty() && random() % 2 == 0) {  // in any order
      const auto given = out.begin() + static_cast<std::ptrdiff_t>(random() % out.size());
      ring.give_back(*given);
      out.erase(given);
    }
  }
  EXPECT_GT(refused, 100U);
}

TEST(RingBuffer, FillsWhatLiesBetween) {
  std::vector<std::byte> memory(4 * cache_line);
  RingBuffer ring(memory);
  const auto first = ring.take(2 * cache_line);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(ring.take(cache_line).has_value());
  ring.give_back(first.value());
  for (const std::size_t i : {0U, 1U}) EXPECT_EQ(ring.take(cache_line)->data(), memory.data() + i * cache_line);
  EXPECT_FALSE(ring.take(1).has_value());
}

TEST(RingBuffer, IsFullWhenAllOfItIsOut) {
  std::vector<std::byte> memory(4 * cache_line);
  RingBuffer ring(memory);
  for (int turn = 0; turn < 3; ++turn) {
    std::deque<Span<std::byte>> out;
    for (int i = 0; i < 4; ++i) out.push_back(ring.take(cache_line).value());
    EXPECT_FALSE(ring.take(1).has_value());
    ring.give_back(out.front());
    out.front() = ring.take(cache_line).value();
    EXPECT_EQ(out.front().data(), memory.data()) << "goes round to what was taken first";
    EXPECT_FALSE(ring.take(1).has_value());
    for (const Span<std::byte> piece : out) ring.give_back(piece);
    const auto all = ring.take(4 * cache_line);
    EXPECT_EQ(all.value().data(), memory.data()) << "all of it in one piece";
    ring.give_back(all.value());
  }
  EXPECT_THROW(static_cast<void>(ring.take(4 * cache_line + 1)), Error);
}

TEST(RingBuffer, TakesBackWhatIsOutAlone) {
  std::vector<std::byte> memory(4 * cache_line);
  RingBuffer ring(memory);
  const auto first = ring.take(cache_line), second = ring.take(cache_line);
  ring.give_back(first.value());
  EXPECT_THROW(ring.give_back(first.value()), Error) << "twice";
  EXPECT_THROW(ring.give_back(second->subspan(1)), Error) << "never handed out";
  ring.give_back(second.value());
}

}  // namespace of_ring_buffer_test
}  // namespace shoal::comm
