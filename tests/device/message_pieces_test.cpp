// SPDX-License-Identifier: Apache-2.0
// A copy of a message never has bytes of two pieces.
#include "src/device/message_pieces.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace shoal::device {
namespace {

using Parts = std::vector<std::pair<std::size_t, std::size_t>>;  // begin, count

Parts parts(std::size_t first, std::size_t bytes, std::size_t piece) {
  Parts result;
  for_each_piece(first, bytes, piece, [&](std::size_t begin, std::size_t count) { result.emplace_back(begin, count); });
  return result;
}

TEST(MessagePieces, EndWhereTheMemorysPiecesEnd) {
  EXPECT_EQ(parts(0, 0, 8), Parts());
  EXPECT_EQ(parts(8, 0, 8), Parts());
  EXPECT_EQ(parts(3, 5, 8), (Parts{{0, 5}}));
  EXPECT_EQ(parts(8, 8, 8), (Parts{{0, 8}}));
  EXPECT_EQ(parts(7, 2, 8), (Parts{{0, 1}, {1, 1}}));
  EXPECT_EQ(parts(5, 20, 8), (Parts{{0, 3}, {3, 8}, {11, 8}, {19, 1}}));
}

TEST(MessagePieces, HaveEveryByteOnce) {
  constexpr std::size_t piece = 4;
  for (std::size_t first = 0; first < 3 * piece; ++first) {
    for (std::size_t bytes = 0; bytes < 4 * piece; ++bytes) {
      std::size_t seen = 0;
      for (const auto& [begin, count] : parts(first, bytes, piece)) {
        EXPECT_EQ(begin, seen);
        ASSERT_GT(count, 0U);
        EXPECT_EQ((first + begin) / piece, (first + begin + count - 1) / piece) << first << ' ' << bytes;
        seen += count;
      }
      EXPECT_EQ(seen, bytes);
    }
  }
}

}  // namespace
}  // namespace shoal::device
