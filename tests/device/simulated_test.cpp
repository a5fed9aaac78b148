// SPDX-License-Identifier: Apache-2.0
// The simulated device does its work as late as events allow, and its memory is out of the host's reach.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "device/buffers.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/device/kind.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/device/queue.hpp"
#include "shoal/device/simulated.hpp"
#include "shoal/device/unit.hpp"
#include "shoal/kernels/bytes.hpp"

namespace shoal::device {
namespace of_simulated_test {

Span<std::byte> bytes_of(Span<float> values) { return {reinterpret_cast<std::byte*>(values.data()), values.size_bytes()}; }

class Simulated : public testing::Test {
 protected:
  void on(Queue queue, const auto& enqueue) {
    const OnQueue scope(queue);
    enqueue();
  }
  /// The first element of x or y, after everything on the current queue.
  float first(Span<float> values) {
    copy(sizeof(float), values.data(), buffers_.tokens.data());
    wait_for_queue();
    return buffers_.tokens.front();
  }

  DeviceMemory memory_{planned()};
  Buffers buffers_{memory_};
};

TEST_F(Simulated, WorkIsDoneWhenTheHostWaits) {
  ASSERT_EQ(kind(), DeviceKind::simulated);
  ASSERT_FALSE(immediate());
  kernels::fill(64, 2.0F, buffers_.x.data());
  copy(buffers_.x.size_bytes(), buffers_.x.data(), buffers_.tokens.data());
  EXPECT_EQ(buffers_.tokens.front(), 0.0F);
  Event event;
  event.record();
  const std::uint64_t before = waits();
  event.wait();
  EXPECT_EQ(waits(), before + 1);
  EXPECT_EQ(buffers_.tokens.front(), 2.0F);
  EXPECT_EQ(buffers_.tokens.back(), 2.0F);
}

TEST_F(Simulated, AnEventIsReachedAfterTheHostHasAskedForAWhile) {
  kernels::fill(64, 2.0F, buffers_.x.data());
  Event event;
  EXPECT_TRUE(event.reached()) << "not recorded";
  event.record();
  EXPECT_FALSE(event.reached());
  int asked = 1;
  while (!event.reached()) ASSERT_LT(++asked, 100);
}

TEST_F(Simulated, QueuesAreOrderedByEventsAlone) {
  kernels::fill(64, 1.0F, buffers_.x.data());
  on(Queue::gather, [&] { kernels::copy_bytes(buffers_.x.size_bytes(), buffers_.x.data(), buffers_.y.data()); });
  EXPECT_EQ(first(buffers_.y), 0.0F) << "nobody has waited for the other queue";

  Event filled, copied;
  kernels::fill(64, 3.0F, buffers_.x.data());
  filled.record();
  on(Queue::gather, [&] {
    filled.before_what_follows();
    kernels::copy_bytes(buffers_.x.size_bytes(), buffers_.x.data(), buffers_.y.data());
    copied.record();
  });
  copied.before_what_follows();
  kernels::fill(64, 4.0F, buffers_.x.data());
  EXPECT_EQ(first(buffers_.y), 3.0F);
  EXPECT_EQ(first(buffers_.x), 4.0F);
}

TEST_F(Simulated, TheHostWaitsForAllQueues) {
  on(Queue::gather, [&] { kernels::fill(64, 6.0F, buffers_.x.data()); });
  on(Queue::reduce, [&] { kernels::fill(64, 7.0F, buffers_.y.data()); });
  const std::uint64_t before = waits();
  wait_for_device();
  EXPECT_EQ(waits(), before + 1);
  EXPECT_FALSE(simulated::pending());
  EXPECT_EQ(first(buffers_.x), 6.0F);
  EXPECT_EQ(first(buffers_.y), 7.0F);
}

TEST_F(Simulated, WorkThatThrowsIsNotDoneAgain) {
  simulated::enqueue([] { throw std::runtime_error("a kernel has failed"); });
  kernels::fill(64, 8.0F, buffers_.x.data());
  EXPECT_THROW(wait_for_queue(), std::runtime_error);
  EXPECT_EQ(first(buffers_.x), 8.0F);
}

/// While the host waits, what the device finishes is a heartbeat, and nothing else is.
TEST_F(Simulated, AWaitIsNoSignOfLife) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds stuck(200);
  std::optional<Clock::time_point> begin;  // of the wait
  Clock::time_point last;                  // the end of the wait has come after this
  std::int64_t silence = 0, afterwards = 0;
  std::chrono::nanoseconds passed{};
  simulated::enqueue_waiting([&] {
    last = Clock::now();
    if (!begin) begin = last;
    const bool over = last - *begin > stuck;
    silence = heartbeat::silence_ns();
    return over;
  });
  simulated::enqueue([&] {
    afterwards = heartbeat::silence_ns();
    passed = Clock::now() - last;
  });
  wait_for_queue();
  EXPECT_GT(silence, std::chrono::nanoseconds(stuck).count());
  EXPECT_LE(afterwards, passed.count());
}

TEST_F(Simulated, PiecesAreCopiesOfParts) {
  constexpr std::size_t count = 700'000;
  Span<float> values;
  std::optional<PieceMemory> pieces_memory;
  const DeviceMemory large([&](Memory& memory) {
    values = memory.take<float>(Kind::parameters, count, "values");
    pieces_memory.emplace(memory, "pieces");
  });
  std::vector<float> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  std::size_t pieces = 0;
  in_pieces(values, Access::write, 256, [&](std::size_t at, Span<float> piece) {
    ++pieces;
    EXPECT_EQ(at % 256, 0U);
    std::copy_n(numbers.begin() + static_cast<std::ptrdiff_t>(at), piece.size(), piece.begin());
  });
  EXPECT_GT(pieces, 2U);
  std::vector<float> back(count, -1.0F);
  in_pieces(values, Access::read, 256, [&](std::size_t at, Span<float> piece) {
    std::copy(piece.begin(), piece.end(), back.begin() + static_cast<std::ptrdiff_t>(at));
  });
  EXPECT_EQ(back, numbers);
  in_pieces(back, Access::read, 256, [&](std::size_t, Span<float> piece) { EXPECT_EQ(piece.data(), back.data()); });
}

TEST_F(Simulated, TheNewestPieceMemoryThatExistsIsUsed) {
  Ledger ledger;
  ledger[Kind::staging] = 2 * piece_bytes();
  DeviceMemory memory(ledger);
  const auto nothing = [](std::size_t, Span<float>) {};
  EXPECT_THROW(in_pieces(buffers_.x, Access::read, 1, nothing), Error);
  std::optional<PieceMemory> older, newer;
  older.emplace(memory, "older");
  const std::byte* const first = PieceMemory::newest().data();
  newer.emplace(memory, "newer");
  const std::byte* const second = PieceMemory::newest().data();
  EXPECT_NE(first, second);
  older.reset();  // in any order
  EXPECT_EQ(PieceMemory::newest().data(), second);
  in_pieces(buffers_.x, Access::read, 1, nothing);
  newer.reset();
  EXPECT_TRUE(PieceMemory::newest().empty());
}

TEST_F(Simulated, MessagesSeeWhatTheCurrentQueueHasWritten) {
  kernels::fill(64, 5.0F, buffers_.x.data());
  const std::byte* const seen = for_messages(bytes_of(buffers_.x), Access::read, Calls::messages);
  float value = 0;
  std::memcpy(&value, seen, sizeof value);
  EXPECT_EQ(value, 5.0F);
  EXPECT_TRUE(holds(buffers_.x.data() + 63));
  EXPECT_FALSE(holds(buffers_.tokens.data()));
}

/// In an arena of a library whose calls reach so much.
struct Reached {
  explicit Reached(Reach reach) { open({0, 1, reach}); }
  ~Reached() { open({}); }
  Reached(const Reached&) = delete;
  Reached& operator=(const Reached&) = delete;
};

TEST_F(Simulated, MessagesThatDoNotReachArenasUseTheirImage) {
  const Reached nothing(Reach::nothing);
  Span<float> values;
  const DeviceMemory memory([&](Memory& m) { values = m.take<float>(Kind::buffers, 64, "values", Use::messages); });
  EXPECT_EQ(memory.taken()[Kind::staging], values.size_bytes());
  kernels::fill(64, 5.0F, values.data());
  std::byte* const sent = for_messages(bytes_of(values), Access::read, Calls::messages);
  std::vector<float> seen(64);
  std::memcpy(seen.data(), sent, values.size_bytes());
  EXPECT_EQ(seen, std::vector<float>(64, 5.0F));
  EXPECT_EQ(for_messages(bytes_of(values.subspan(8, 1)), Access::write, Calls::messages), sent + 8 * sizeof(float));
  seen.assign(64, 7.0F);
  std::memcpy(sent, seen.data(), values.size_bytes());
  const auto in_arena = [&] {
    simulated::Opened opened;
    return std::vector<float>(values.data(), values.data() + values.size());
  };
  EXPECT_EQ(in_arena(), std::vector<float>(64, 5.0F)) << "a message arrived before received()";
  received(bytes_of(values.subspan(0, 8)), Calls::messages);
  std::fill(seen.begin() + 8, seen.end(), 5.0F);
  EXPECT_EQ(in_arena(), seen);
}

/// Two buffers that messages use, which are neighbours, and one that they do not use.
struct Taken {
  Span<std::byte> first, second, kept;
  DeviceMemory memory{[this](Memory& m) {
    first = m.take<std::byte>(Kind::gradients, 64, "first", Use::messages);
    m.take<std::byte>(Kind::buffers, 64, "of another kind", Use::collectives);
    second = m.take<std::byte>(Kind::gradients, 64, "second", Use::messages);
    kept = m.take<std::byte>(Kind::gradients, 64, "kept");
  }};
};

TEST_F(Simulated, AMessageMayHaveSeveralBuffers) {
  const Reached nothing(Reach::nothing);
  const Taken taken;
  const Span<std::byte> both(taken.first.data(), 128);
  const std::byte nine{9};
  copy(1, &nine, taken.second.data());
  EXPECT_EQ(for_messages(both, Access::read, Calls::messages)[64], nine);
}

/// Whatever the library reaches, so that every run on this device notices.
TEST_F(Simulated, WhatWasNotTakenForMessagesIsRefused) {
  for (const Reach reach : {Reach::nothing, Reach::messages, Reach::collectives}) {
    const Reached reached(reach);
    const Taken taken;
    const auto refused = [](Span<std::byte> message, Calls calls) -> std::string {
      try {
        for_messages(message, Access::read, calls);
      } catch (const Error& error) {
        return error.what();
      }
      return "was not refused";
    };
    EXPECT_EQ(refused(taken.kept.subspan(3, 1), Calls::messages),
              "gradients: kept, byte 3 of 64, is used by a message, and was taken for kernels alone");
    EXPECT_EQ(refused({taken.first.data(), 129}, Calls::messages),
              "gradients: kept, byte 0 of 64, is used by a message, and was taken for kernels alone");
    EXPECT_EQ(
        refused(taken.first, Calls::collectives),
        "gradients: first, byte 0 of 64, is used by a collective of the library that sends messages, and was taken for "
        "messages of one rank to another alone");
  }
}

TEST_F(Simulated, OnlyCollectivesHaveImagesIfMessagesReachArenas) {
  const Reached messages(Reach::messages);
  const Taken taken;
  EXPECT_EQ(taken.memory.taken().images(), 64U);
  EXPECT_EQ(for_messages(taken.first, Access::write, Calls::messages), simulated::address_for_messages(taken.first.data()));
}

TEST_F(Simulated, NamesWhatNoMessageHasUsed) {
  setenv("SHOAL_SIMULATE_MESSAGES", "unused", 1);
  testing::internal::CaptureStderr();
  {
    const Taken taken;
    for_messages(taken.second.first(1), Access::read, Calls::messages);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "shoal: no message has used gradients: first\nshoal: no message has used buffers: of another kind\n");
  unsetenv("SHOAL_SIMULATE_MESSAGES");
}

}  // namespace of_simulated_test
}  // namespace shoal::device
