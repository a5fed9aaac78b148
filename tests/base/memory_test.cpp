// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "shoal/base/error.hpp"

namespace shoal {
namespace of_memory_test {

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

/// Two kinds, each with buffers that messages use and one between them that they do not.
struct Sent {
  Span<float> first, second, kept, third, sums, gathered;
  explicit Sent(Memory& memory)
      : first(memory.take<float>(Kind::parameters, 16, "first", Use::messages)),
        sums(memory.take<float>(Kind::buffers, 20, "sums", Use::collectives)) {
    second = memory.take<float>(Kind::parameters, 5, "second", Use::collectives);
    kept = memory.take<float>(Kind::parameters, 100, "kept");
    third = memory.take<float>(Kind::parameters, 7, "third", Use::messages);
    memory.take<float>(Kind::staging, 3, "tokens", Use::messages);  // the host's: it needs no image
    gathered = memory.take<float>(Kind::buffers, 16, "gathered", Use::messages);
  }
};

Ledger plan_of_sent(Images images) {
  Memory counting(images);
  const Sent sent(counting);
  return counting.taken();
}

TEST(Memory, ImagesAreStagingMemoryOfWhatTheirCallsUse) {
  const Ledger without = plan_of_sent(Images::none), some = plan_of_sent(Images::collectives),
               all = plan_of_sent(Images::messages);
  EXPECT_EQ(without.images(), 0U);
  EXPECT_EQ(without[Kind::staging], 64U);
  EXPECT_EQ(some.images(Kind::parameters), 64U);
  EXPECT_EQ(some.images(Kind::buffers), 128U);
  EXPECT_EQ(all.images(Kind::parameters), 3 * 64U);
  EXPECT_EQ(all.images(Kind::buffers), 128U + 64U);
  for (const Ledger& with : {some, all}) {
    EXPECT_EQ(with[Kind::staging], 64U + with.images());
    EXPECT_EQ(with[Kind::parameters], without[Kind::parameters]) << "images are not memory of their kind";
    EXPECT_EQ(with.total(), without.total() + with.images());
  }
}

std::byte* image_of(Span<const float> values) { return Memory::place_of(values.data()).value().image; }

TEST(Memory, ImagesOfNeighboursAreNeighboursAndNoImagesOverlap) {
  const Ledger planned = plan_of_sent(Images::messages);
  Memory memory(planned, pages(), pages(), Images::messages);
  const Sent sent(memory);
  EXPECT_EQ(memory.taken(), planned);
  ASSERT_NE(image_of(sent.first), nullptr);
  EXPECT_EQ(image_of(sent.second), image_of(sent.first) + 64) << "of neighbours, although another kind was taken between";
  EXPECT_EQ(image_of(sent.first.subspan(3)), image_of(sent.first) + 3 * sizeof(float));
  EXPECT_EQ(image_of(sent.kept), nullptr);
  EXPECT_EQ(image_of(sent.gathered), image_of(sent.sums) + 128);
  std::vector<std::byte*> begins = {image_of(sent.first), image_of(sent.third), image_of(sent.sums)};
  std::sort(begins.begin(), begins.end());
  EXPECT_GE(begins[1] - begins[0], 64);
  EXPECT_GE(begins[2] - begins[1], 64);
  for (const Span<float> values : {sent.first, sent.second, sent.third, sent.sums, sent.gathered}) {
    std::fill_n(image_of(values), values.size_bytes(), std::byte{1});  // in reach
  }
  EXPECT_EQ(std::count(sent.first.begin(), sent.first.end(), 0.0F), 16) << "an image is other memory";
}

TEST(Memory, OtherImagesThanPlannedAreRefused) {
  Memory memory(plan_of_sent(Images::collectives), pages(), pages(), Images::messages);
  try {
    const Sent sent(memory);
    FAIL() << "images were handed out that were not planned";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(
        message.find("no room for second: memory of the host for its messages was planned with 64 bytes, 64 are taken"),
        std::string::npos)
        << message;
  }
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

TEST(MemoryDeathTest, SaysWhyMemoryCouldNotBeGivenBack) {
  const auto refuse = [](void* /*at*/, std::size_t /*bytes*/) {
    fail("cudaFree: an illegal memory access was encountered");
  };
  Ledger planned;
  planned[Kind::gradients] = 64;
  EXPECT_DEATH(Memory(planned, {pages().reserve, refuse}), "when memory for gradients was given back: cudaFree: an illegal");
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

}  // namespace of_memory_test
}  // namespace shoal
