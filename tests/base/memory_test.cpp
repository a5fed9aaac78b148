// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>

#include "shoal/base/error.hpp"

namespace shoal {
namespace {

/// Takes memory in its constructor, as the program's modules do: first from a Memory that counts, then from a real one.
struct Buffers {
  Span<float> weights, bias;
  Span<bf16> activations;
  Span<std::byte> nothing;
  explicit Buffers(Memory& memory)
      : weights(memory.take<float>(Kind::parameters, 100, "weights")),
        bias(memory.take<float>(Kind::parameters, 3, "bias")),
        activations(memory.take<bf16>(Kind::activations, 33, "activations")),
        nothing(memory.take<std::byte>(Kind::buffers, 0, "nothing")) {}
};

Ledger plan() {
  Memory counting;
  const Buffers buffers(counting);
  return counting.taken();
}

TEST(Memory, CountingReturnsSizesWithoutMemory) {
  Memory counting;
  const Buffers buffers(counting);
  EXPECT_TRUE(counting.counting());
  EXPECT_EQ(buffers.weights.size(), 100U);
  EXPECT_EQ(buffers.weights.data(), nullptr);
  EXPECT_EQ(counting.taken()[Kind::parameters], 448U + 64U);  // 400 and 12 bytes, rounded up to multiples of 64
  EXPECT_EQ(counting.taken()[Kind::activations], 128U);
  EXPECT_EQ(counting.taken()[Kind::buffers], 0U);
  EXPECT_EQ(counting.taken().total(), 640U);
}

TEST(Memory, TakesExactlyWhatWasCounted) {
  const Ledger planned = plan();
  Memory memory(planned);
  const Buffers buffers(memory);
  EXPECT_FALSE(memory.counting());
  EXPECT_EQ(memory.taken(), planned);
}

TEST(Memory, BuffersAreZeroAlignedAndDisjoint) {
  Memory memory(plan());
  const Buffers buffers(memory);
  for (const void* at : {static_cast<void*>(buffers.weights.data()), static_cast<void*>(buffers.bias.data()),
                         static_cast<void*>(buffers.activations.data())}) {
    ASSERT_NE(at, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(at) % 64, 0U);
  }
  EXPECT_EQ(std::count(buffers.weights.begin(), buffers.weights.end(), 0.0F), 100);
  std::fill(buffers.weights.begin(), buffers.weights.end(), 1.0F);
  EXPECT_EQ(std::count(buffers.bias.begin(), buffers.bias.end(), 0.0F), 3);
}

TEST(Memory, MoreThanPlannedNamesKindAndLabel) {
  Memory memory(plan());
  const Buffers buffers(memory);
  try {
    memory.take<float>(Kind::activations, 17, "attention");
    FAIL() << "17 floats more than planned were handed out";
  } catch (const Error& error) {
    EXPECT_EQ(error.seen(), Seen::here);
    const std::string message = error.what();
    EXPECT_NE(message.find("activations"), std::string::npos) << message;
    EXPECT_NE(message.find("attention"), std::string::npos) << message;
  }
  EXPECT_EQ(memory.taken(), plan()) << "a refused take() must not be counted";
}

TEST(Memory, EntriesAddUpToWhatWasTaken) {
  Memory memory(plan());
  const Buffers buffers(memory);
  ASSERT_EQ(memory.entries().size(), 4U);
  EXPECT_EQ(memory.entries()[1].label, "bias");
  EXPECT_EQ(memory.entries()[1].kind, Kind::parameters);
  const std::size_t bytes = std::accumulate(memory.entries().begin(), memory.entries().end(), std::size_t{0},
                                            [](std::size_t sum, const Memory::Entry& entry) { return sum + entry.bytes; });
  EXPECT_EQ(bytes, memory.taken().total());
}

TEST(Memory, MoreThanTheMachineCanAddressIsRefused) {
  Ledger planned;
  planned[Kind::moments] = std::size_t{1} << 60U;
  try {
    const Memory memory(planned);
    FAIL() << "an exbibyte was reserved";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("moments"), std::string::npos) << error.what();
  }
}

TEST(Ledger, KindsHaveTheirOwnCountersAndNames) {
  Ledger ledger;
  std::size_t bytes = 1;
  for (const Kind kind : kinds) ledger[kind] = bytes *= 2;
  EXPECT_EQ(ledger.total(), 254U);
  EXPECT_EQ(ledger[Kind::parameters], 2U);
  EXPECT_EQ(ledger[Kind::buffers], 64U);
  EXPECT_STREQ(name_of(Kind::master), "master");
  EXPECT_STREQ(name_of(Kind::buffers), "buffers");
  EXPECT_STREQ(name_of(Kind::staging), "staging");
}

}  // namespace
}  // namespace shoal
