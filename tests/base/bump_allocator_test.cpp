// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/bump_allocator.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "shoal/base/error.hpp"

namespace shoal {
namespace of_bump_allocator_test {

TEST(BumpAllocator, BuffersFollowOneAnotherAtWholeCacheLines) {
  alignas(64) std::array<std::byte, 200> memory;
  BumpAllocator buffers(memory);
  EXPECT_EQ(buffers.take<std::byte>(1), memory.data());
  EXPECT_EQ(reinterpret_cast<std::byte*>(buffers.take<float>(16)), memory.data() + 64);
  EXPECT_EQ(reinterpret_cast<std::byte*>(buffers.take<double>(0)), memory.data() + 128);
  EXPECT_EQ(buffers.take_bytes(72).data(), memory.data() + 128);
}

TEST(BumpAllocator, CountsWithoutMemoryWhatItTakesWithMemory) {
  alignas(64) std::array<std::byte, 192> memory;
  BumpAllocator counting, buffers(memory);
  for (BumpAllocator* const allocator : {&counting, &buffers}) {
    allocator->take<float>(17);
    allocator->take_bytes(3);
  }
  EXPECT_EQ(counting.used(), 192U);
  EXPECT_EQ(buffers.used(), 192U);
  EXPECT_EQ(counting.take<float>(1'000'000), nullptr);
}

TEST(BumpAllocator, LeavesNoGapsWhereAlignmentIsOne) {
  std::array<std::byte, 10> memory;
  BumpAllocator buffers(memory, 1);
  EXPECT_EQ(buffers.take_bytes(3).data(), memory.data());
  EXPECT_EQ(buffers.take_bytes(7).data(), memory.data() + 3);
  EXPECT_EQ(buffers.used(), 10U);
}

TEST(BumpAllocator, FailsBeyondItsMemory) {
  std::array<std::byte, 65> memory;
  BumpAllocator buffers(memory);
  EXPECT_THROW(buffers.take_bytes(66), Error);
  buffers.take_bytes(64);
  EXPECT_THROW(buffers.take<std::uint16_t>(1), Error);
  buffers.take_bytes(1);
  EXPECT_THROW(buffers.take_bytes(1), Error);
  BumpAllocator none{Span<std::byte>{}};
  EXPECT_NO_THROW(none.take_bytes(0));
  EXPECT_THROW(none.take_bytes(1), Error);
}

}  // namespace of_bump_allocator_test
}  // namespace shoal
