// SPDX-License-Identifier: Apache-2.0
// The host as a device: every call does its work before it returns, and what a device would have to be waited for is
// counted.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "shoal/device/cells.hpp"
#include "shoal/device/kind.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/device/queue.hpp"
#include "shoal/device/timing.hpp"

namespace shoal::device {
namespace of_host_test {

Ledger taken(std::size_t cells) {
  Memory counting;
  const Cells planned(counting, cells, "numbers");
  return counting.taken();
}

TEST(Host, CopiesAtOnce) {
  std::vector<int> from(100), to(100, -1);
  std::iota(from.begin(), from.end(), 0);
  copy(from.size() * sizeof(int), from.data(), to.data());
  EXPECT_EQ(to, from);
  copy(0, nullptr, nullptr);
}

TEST(Host, EventsAreReachedAndWaitsAreCounted) {
  EXPECT_EQ(kind(), DeviceKind::host);
  EXPECT_TRUE(immediate());
  Event event;
  EXPECT_TRUE(event.reached());
  const std::uint64_t before = waits();
  {
    const OnQueue gather(Queue::gather);
    event.record();
  }
  event.before_what_follows();
  EXPECT_TRUE(event.reached());
  EXPECT_EQ(waits(), before);
  event.wait();
  wait_for_queue();
  EXPECT_EQ(waits(), before + 2);
  wait_for_device();
  EXPECT_EQ(waits(), before + 3);
}

TEST(Host, TimesNothing) {
  trace::start(trace::Level::kernels, 10);
  start_timing(10);
  {
    const Timed timed("all_gather", Work::collective);
    const int from = 1;
    int to = 0;
    copy(sizeof from, &from, &to);
  }
  read_spans();
  EXPECT_EQ(trace::pending(), 0U);
  EXPECT_EQ(untimed_spans(), 0U);
  trace::stop();
}

TEST(Host, CellsAreFetched) {
  DeviceMemory memory(taken(3));
  Cells cells(memory, 3, "numbers");
  EXPECT_EQ(cells.values()[1], 0.0);
  *cells.cell(1) = 2.5;
  EXPECT_EQ(cells.values()[1], 0.0);
  cells.fetch();
  wait_for_queue();
  EXPECT_EQ(cells.values()[1], 2.5);
  EXPECT_EQ(memory.taken()[Kind::buffers], 64U);
  EXPECT_EQ(memory.taken()[Kind::staging], 64U);
}

TEST(Host, PiecesAreTheValuesThemselves) {
  std::vector<float> values(1000, 1.0F);
  std::size_t pieces = 0;
  in_pieces(values, Access::write, 256, [&](std::size_t first, Span<float> piece) {
    ++pieces;
    EXPECT_EQ(first, 0U);
    EXPECT_EQ(piece.data(), values.data());
    EXPECT_EQ(piece.size(), values.size());
  });
  EXPECT_EQ(pieces, 1U);
  in_pieces({}, Access::read, 256, [&](std::size_t, Span<float>) { ++pieces; });
  EXPECT_EQ(pieces, 1U);
  EXPECT_EQ(piece_bytes(), 0U);
  Memory memory(Ledger{});
  const PieceMemory none(memory, "pieces");
  EXPECT_TRUE(PieceMemory::newest().empty());
  EXPECT_FALSE(holds(values.data()));
}

}  // namespace of_host_test
}  // namespace shoal::device
