// SPDX-License-Identifier: Apache-2.0
// Memory, queues and events of a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "device/buffers.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/pump.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/device/kind.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/device/queue.hpp"
#include "shoal/device/taken.hpp"
#include "shoal/device/timing.hpp"
#include "shoal/device/unit.hpp"
#include "shoal/kernels/bytes.hpp"

namespace shoal::device {
namespace {

/// Elements of a buffer that takes a GPU milliseconds to fill many times.
constexpr std::size_t many = std::size_t{1} << 26U;

struct Large {
  explicit Large(Memory& memory)
      : x(memory.take<float>(Kind::buffers, many, "x")),
        y(memory.take<float>(Kind::buffers, many, "y")),
        seen(memory.take<float>(Kind::staging, 64, "seen")) {}
  Span<float> x, y, seen;
};

Ledger planned_large() {
  Memory counting(images());
  const Large large(counting);
  return counting.taken();
}

/// Launches return at once in these tests, unlike those of kernels (with_gpu.cpp). Set before main().
[[maybe_unused]] const int launches_return = setenv("CUDA_LAUNCH_BLOCKING", "0", 1);

class Cuda : public testing::Test {
 protected:
  /// main() makes kernels end before they return (support/with_gpu.cpp); here they shall be in flight.
  void SetUp() override { set_pump(nullptr); }

  /// Takes the device a while on the current queue.
  static void be_busy(Span<float> x, float last) {
    for (int i = 0; i < 50; ++i) kernels::fill(x.size(), static_cast<float>(i), x.data());
    kernels::fill(x.size(), last, x.data());
  }
  static float last_of(Span<float> x, Span<float> seen) {
    copy(sizeof(float), &x.back(), seen.data());
    wait_for_queue();
    return seen.front();
  }
};

TEST_F(Cuda, IsTheDevice) {
  EXPECT_EQ(kind(), DeviceKind::cuda);
  EXPECT_FALSE(immediate());
  EXPECT_TRUE(unit().given());
  EXPECT_GE(unit().capability, 80);
  EXPECT_GT(unit().processors, 0);
  EXPECT_GT(unit().mhz, 0);
  EXPECT_GT(free_bytes(), std::size_t{1} << 30U);
  EXPECT_LT(free_bytes(), unit().total_bytes);
  ASSERT_FALSE(taken().empty());
  EXPECT_LT(taken().back().bytes, unit().total_bytes) << taken().back().by;
  EXPECT_THROW(open({}), Error) << "a second time";
}

TEST_F(Cuda, WhatQueuesDidIsTimed) {
  constexpr std::int64_t tolerance_ns = 100'000;  // of reading both clocks
  DeviceMemory memory(planned_large());
  const Large large(memory);
  trace::start(trace::Level::kernels, 1000);
  start_timing(200);
  for (int step = 0; step < 3; ++step) {  // each counts from another reference
    const std::int64_t before = trace::now_ns();
    be_busy(large.x, 1.0F);
    {
      const OnQueue there(Queue::gather);
      be_busy(large.y, 2.0F);
    }
    wait_for_device();
    const std::int64_t after = trace::now_ns();
    read_spans();
    std::vector<trace::Event> events = trace::drain();
    map_to_host(events);
    ASSERT_EQ(events.size(), 2 * 51U);
    std::array<std::int64_t, queues + 1> last{};
    for (const trace::Event& event : events) {
      std::int64_t& end = last.at(static_cast<std::size_t>(event.queue));
      EXPECT_GE(event.begin_ns, end) << "they overlap";
      EXPECT_GT(event.duration_ns, 0);
      EXPECT_GE(event.begin_ns, before - tolerance_ns);
      end = event.begin_ns + event.duration_ns;
      EXPECT_LE(end, after + tolerance_ns);
    }
  }
  EXPECT_EQ(untimed_spans(), 0U);
  trace::stop();
}

TEST_F(Cuda, ArenasAreKnownByTheirAddresses) {
  const float* inside = nullptr;
  {
    DeviceMemory memory(planned());
    const Buffers buffers(memory);
    inside = buffers.x.data();
    EXPECT_TRUE(holds(inside));
    EXPECT_TRUE(holds(&buffers.y.back()));
    EXPECT_FALSE(holds(buffers.tokens.data()));
    EXPECT_FALSE(holds(&memory));
  }
  EXPECT_FALSE(holds(inside));
}

TEST_F(Cuda, ArenasAreZeroAtFirst) {
  DeviceMemory memory(planned());
  const Buffers buffers(memory);
  buffers.tokens[0] = 7.0F;
  copy(buffers.y.size_bytes(), buffers.y.data(), buffers.tokens.data());
  wait_for_queue();
  EXPECT_TRUE(std::all_of(buffers.tokens.begin(), buffers.tokens.end(), [](float v) { return v == 0.0F; }));
}

TEST_F(Cuda, MoreThanThereIsEndsInOneLine) {
  Memory counting(images());
  counting.take<std::byte>(Kind::buffers, unit().total_bytes + 1, "too much");
  try {
    const DeviceMemory memory(counting.taken());
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(" bytes are free"), std::string::npos) << error.what();
  }
  DeviceMemory memory(planned());  // the failure leaves no error behind
  const Buffers buffers(memory);
  kernels::fill(64, 2.0F, buffers.x.data());
  EXPECT_EQ(last_of(buffers.x, buffers.tokens), 2.0F);
}

TEST_F(Cuda, CopiesGoInAllDirections) {
  DeviceMemory memory(planned());
  const Buffers buffers(memory);
  std::vector<float> from(64), to(64);
  std::iota(from.begin(), from.end(), 1.0F);
  copy(buffers.x.size_bytes(), from.data(), buffers.x.data());
  copy(buffers.x.size_bytes(), buffers.x.data(), buffers.y.data());
  copy(buffers.x.size_bytes(), buffers.y.data(), buffers.tokens.data());
  copy(buffers.x.size_bytes(), buffers.tokens.data(), to.data());
  copy(0, nullptr, nullptr);
  wait_for_queue();
  EXPECT_EQ(to, from);
}

TEST_F(Cuda, AnEventIsReachedWhenWorkBeforeItIsDone) {
  DeviceMemory memory(planned_large());
  const Large large(memory);
  Event event;
  EXPECT_TRUE(event.reached()) << "not recorded";
  be_busy(large.x, 3.0F);
  event.record();
  EXPECT_FALSE(event.reached());
  const std::uint64_t before = waits();
  event.wait();
  EXPECT_TRUE(event.reached());
  EXPECT_EQ(waits(), before + 1);
  EXPECT_EQ(last_of(large.x, large.seen), 3.0F);
  EXPECT_FALSE([&] {  // recorded again
    be_busy(large.x, 4.0F);
    event.record();
    return event.reached();
  }());
  event.wait();
  EXPECT_EQ(last_of(large.x, large.seen), 4.0F);
}

TEST_F(Cuda, QueuesAreOrderedByEvents) {
  DeviceMemory memory(planned_large());
  const Large large(memory);
  for (const Queue queue : {Queue::gather, Queue::reduce}) {
    for (int i = 0; i < 20; ++i) {
      const float value = static_cast<float>(i + 1);
      Event filled, copied;
      be_busy(large.x, value);
      filled.record();
      {
        const OnQueue scope(queue);
        filled.before_what_follows();
        kernels::copy_bytes(large.x.size_bytes(), large.x.data(), large.y.data());
        copied.record();
      }
      copied.before_what_follows();
      kernels::fill(large.x.size(), -1.0F, large.x.data());
      ASSERT_EQ(last_of(large.y, large.seen), value) << i;
    }
  }
}

TEST_F(Cuda, QueuesRunBesideEachOther) {
  DeviceMemory memory(planned_large());
  const Large large(memory);
  Event compute, gather;
  for (int i = 0; i < 10; ++i) be_busy(large.x, 1.0F);
  compute.record();
  {
    const OnQueue scope(Queue::gather);
    kernels::fill(64, 2.0F, large.y.data());
    gather.record();
    gather.wait();
    EXPECT_TRUE(gather.reached());
  }
  EXPECT_FALSE(compute.reached()) << "the queue gather waited for the queue compute";
  compute.wait();
}

/// with_gpu.cpp says that messages do not reach arenas. Memory of the host is pinned in pieces, and no copy may have bytes
/// of two.
TEST_F(Cuda, MessagesThatDoNotReachArenasUseAnImage) {
  constexpr std::size_t before = 1'000'003, length = 3'000'001;
  constexpr std::size_t n = before + length + 64;
  Span<float> values, back;
  DeviceMemory memory([&](Memory& m) {
    values = m.take<float>(Kind::buffers, n, "values", Use::messages);
    back = m.take<float>(Kind::staging, n, "back");
  });
  std::iota(back.begin(), back.end(), 0.0F);
  copy(values.size_bytes(), back.data(), values.data());
  const Span<float> message = values.subspan(before, length);
  const Span<std::byte> bytes(reinterpret_cast<std::byte*>(message.data()), message.size_bytes());
  std::byte* const at = for_messages(bytes, Access::read, Calls::messages);
  ASSERT_NE(at, bytes.data());
  const Span<float> sent(reinterpret_cast<float*>(at), length);
  for (std::size_t i = 0; i < length; ++i) ASSERT_EQ(sent[i], static_cast<float>(before + i));

  ASSERT_EQ(for_messages(bytes, Access::write, Calls::messages), at);
  for (std::size_t i = 0; i < length; ++i) sent[i] = static_cast<float>(i) + 0.5F;
  received(bytes, Calls::messages);
  copy(values.size_bytes(), values.data(), back.data());
  wait_for_queue();
  for (std::size_t i = 0; i < n; ++i) {
    const bool inside = i >= before && i < before + length;
    ASSERT_EQ(back[i], inside ? static_cast<float>(i - before) + 0.5F : static_cast<float>(i)) << i;
  }
}

TEST_F(Cuda, CellsAreFetched) {
  Ledger taken;
  {
    Memory counting(images());
    const Cells planned_cells(counting, 3, "numbers");
    taken = counting.taken();
  }
  DeviceMemory memory(taken);
  Cells cells(memory, 3, "numbers");
  const double value = 2.5;
  copy(sizeof value, &value, cells.cell(1));
  cells.fetch();
  wait_for_queue();
  EXPECT_EQ(cells.values()[0], 0.0);
  EXPECT_EQ(cells.values()[1], 2.5);
}

TEST_F(Cuda, PiecesStandForArenas) {
  constexpr std::size_t n = 1'000'000;
  Span<float> values, back;
  DeviceMemory memory([&](Memory& m) {
    values = m.take<float>(Kind::buffers, n, "values");
    back = m.take<float>(Kind::staging, n, "back");
  });
  Memory for_pieces(
      [] {
        Memory counting(images());
        counting.take<std::byte>(Kind::staging, piece_bytes(), "pieces");
        return counting.taken();
      }(),
      arenas(), staging());
  const PieceMemory pieces(for_pieces, "pieces");
  in_pieces(values, Access::write, 256, [](std::size_t first, Span<float> piece) {
    for (std::size_t i = 0; i < piece.size(); ++i) piece[i] = static_cast<float>(first + i);
  });
  copy(values.size_bytes(), values.data(), back.data());
  wait_for_queue();
  for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(back[i], static_cast<float>(i));
  std::size_t seen = 0;
  in_pieces(values, Access::read, 256, [&](std::size_t first, Span<float> piece) {
    EXPECT_EQ(first, seen);
    EXPECT_EQ(piece.front(), static_cast<float>(first));
    seen += piece.size();
  });
  EXPECT_EQ(seen, n);
}

}  // namespace
}  // namespace shoal::device
