// SPDX-License-Identifier: Apache-2.0
// A rank that is alone in its group, on arenas, which the MPI library may not reach: what it would get by messages is
// copied.
#include <gtest/gtest.h>

#include <vector>

#include "shoal/comm/world.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/device/queue.hpp"
#include "support/mpi_main.hpp"

namespace shoal::comm {
namespace {

constexpr std::size_t n = 5;

struct Arenas {
  Span<float> from, into;
  device::DeviceMemory memory{[this](Memory& m) {
    from = m.take<float>(Kind::buffers, n, "from", Use::collectives);
    into = m.take<float>(Kind::buffers, n, "into", Use::collectives);
  }};
  std::vector<float> values = {1, 2, 3, 4, 5};

  Arenas() { device::copy(from.size_bytes(), values.data(), from.data()); }
  std::vector<float> got() const {
    std::vector<float> result(n);
    device::copy(into.size_bytes(), into.data(), result.data());
    device::wait_for_queue();
    return result;
  }
};

TEST(Alone, AllGatherCopies) {
  Arenas arenas;
  test::world().all().all_gather(bytes_of(arenas.from), bytes_of(arenas.into)).wait();
  EXPECT_EQ(arenas.got(), arenas.values);
}

TEST(Alone, ReduceScatterCopies) {
  Arenas arenas;
  test::world().all().reduce_scatter(bytes_of(arenas.from), {n * sizeof(float)}, bytes_of(arenas.into)).wait();
  EXPECT_EQ(arenas.got(), arenas.values);
}

TEST(Alone, InPlaceChangesNothing) {
  Arenas arenas;
  device::copy(arenas.from.size_bytes(), arenas.from.data(), arenas.into.data());
  test::world().all().all_gather(bytes_of(arenas.into), bytes_of(arenas.into)).wait();
  test::world().all().all_gather_parts(bytes_of(arenas.into), {n * sizeof(float)}).wait();
  test::world().all().all_reduce(arenas.into, Reduce::sum).wait();
  test::world().all().broadcast(bytes_of(arenas.into), 0).wait();
  EXPECT_EQ(arenas.got(), arenas.values);
}

}  // namespace
}  // namespace shoal::comm
