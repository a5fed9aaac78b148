// SPDX-License-Identifier: Apache-2.0
// Which calls of the MPI library get addresses of arenas, seen through MPI's profiling interface: on the simulated device,
// with libraries that reach arenas in all calls, in messages of one rank to another alone, or in none.
#include <gtest/gtest.h>
#include <mpi.h>

#include <vector>

#include "shoal/device/cells.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/device/queue.hpp"
#include "shoal/device/simulated.hpp"
#include "shoal/device/unit.hpp"
#include "support/mpi_main.hpp"

namespace {

std::vector<const void*> used;  // by MPI, since it was cleared

void use(const void* memory) {
  if (memory != MPI_IN_PLACE) used.push_back(memory);
}

}  // namespace

extern "C" int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm group,
                         MPI_Request* request) {
  use(data);
  return PMPI_Isend(data, count, type, to, tag, group, request);
}

extern "C" int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm group, MPI_Request* request) {
  use(data);
  return PMPI_Irecv(data, count, type, from, tag, group, request);
}

extern "C" int MPI_Iallgather(const void* from, int sent, MPI_Datatype type, void* into, int got, MPI_Datatype got_type,
                              MPI_Comm group, MPI_Request* request) {
  use(from);
  use(into);
  return PMPI_Iallgather(from, sent, type, into, got, got_type, group, request);
}

extern "C" int MPI_Iallgatherv(const void* from, int sent, MPI_Datatype type, void* into, const int* counts,
                               const int* begins, MPI_Datatype got_type, MPI_Comm group, MPI_Request* request) {
  use(from);
  use(into);
  return PMPI_Iallgatherv(from, sent, type, into, counts, begins, got_type, group, request);
}

extern "C" int MPI_Ireduce_scatter(const void* from, void* into, const int* counts, MPI_Datatype type, MPI_Op how,
                                   MPI_Comm group, MPI_Request* request) {
  use(from);
  use(into);
  return PMPI_Ireduce_scatter(from, into, counts, type, how, group, request);
}

extern "C" int MPI_Ibcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm group, MPI_Request* request) {
  use(data);
  return PMPI_Ibcast(data, count, type, root, group, request);
}

extern "C" int MPI_Iallreduce(const void* from, void* into, int count, MPI_Datatype type, MPI_Op how, MPI_Comm group,
                              MPI_Request* request) {
  use(from);
  use(into);
  return PMPI_Iallreduce(from, into, count, type, how, group, request);
}

namespace shoal::comm {
namespace {

using device::Reach;
using Numbers = std::vector<float>;

class Reaching : public testing::TestWithParam<Reach> {
 protected:
  struct Arena {
    Span<float> all;
    device::DeviceMemory memory{[this](Memory& m) { all = m.take<float>(Kind::buffers, 4, "all", Use::collectives); }};
  };
  Reaching() { device::open({0, 1, GetParam()}); }
  ~Reaching() override { device::open({}); }

  /// Starts an operation on an arena with these numbers. Returns those that it has afterwards.
  template <typename Start>
  Numbers after(const Numbers& before, const Start& start) {
    const Arena arena;
    device::copy(arena.all.size_bytes(), before.data(), arena.all.data());
    used.clear();
    start(arena.all).wait();
    const std::byte* const begin = device::simulated::address_for_messages(arena.all.data());
    in_arena_ = 0;
    for (const void* at : used) in_arena_ += begin <= at && at < begin + arena.all.size_bytes() ? 1U : 0U;
    Numbers result(before.size());
    device::copy(arena.all.size_bytes(), arena.all.data(), result.data());
    device::wait_for_queue();
    return result;
  }
  void expect_reached(bool reached) const {
    EXPECT_FALSE(used.empty());
    EXPECT_EQ(in_arena_, reached ? used.size() : 0U);
  }

  Communicator& group_ = test::world().all();
  float own_ = static_cast<float>(1 + group_.rank());  // 1 or 2
  std::size_t in_arena_ = 0;                           // of what MPI used
};

TEST_P(Reaching, MessagesOfTwoRanks) {
  const int partner = 1 - group_.rank();
  const Numbers got = after({own_, own_, 0, 0}, [&](Span<float> all) {
    return group_.exchange({{partner, bytes_of(all.first(2))}}, {{partner, bytes_of(all.subspan(2))}}, 0);
  });
  EXPECT_EQ(got, (Numbers{own_, own_, 3 - own_, 3 - own_}));
  expect_reached(GetParam() != Reach::nothing);
}

TEST_P(Reaching, Collectives) {
  const bool reached = GetParam() == Reach::collectives;
  const auto own = static_cast<std::size_t>(group_.rank());
  EXPECT_EQ(after({own_, own_, 0, 0},
                  [&](Span<float> all) { return group_.all_gather(bytes_of(all.first(1)), bytes_of(all.subspan(2))); }),
            (Numbers{own_, own_, 1, 2}));
  expect_reached(reached);
  Numbers gathered(4, 0.0F);
  gathered[2 * own] = gathered[2 * own + 1] = own_;
  EXPECT_EQ(after(gathered,
                  [&](Span<float> all) {
                    return group_.all_gather_parts(bytes_of(all), {2 * sizeof(float), 2 * sizeof(float)});
                  }),
            (Numbers{1, 1, 2, 2}));
  expect_reached(reached);
  EXPECT_EQ(after({own_, own_, 0, 0},
                  [&](Span<float> all) {
                    return group_.reduce_scatter(bytes_of(all.first(2)), {sizeof(float), sizeof(float)},
                                                 bytes_of(all.subspan(2, 1)));
                  }),
            (Numbers{own_, own_, 3, 0}));
  expect_reached(reached);
  EXPECT_EQ(after(Numbers(4, own_), [&](Span<float> all) { return group_.broadcast(bytes_of(all), 1); }), Numbers(4, 2.0F));
  expect_reached(reached);
  EXPECT_EQ(after(Numbers(4, own_), [&](Span<float> all) { return group_.all_reduce(all, Reduce::sum); }), Numbers(4, 3.0F));
  expect_reached(reached);
}

INSTANTIATE_TEST_SUITE_P(Libraries, Reaching, testing::Values(Reach::nothing, Reach::messages, Reach::collectives));

}  // namespace
}  // namespace shoal::comm
