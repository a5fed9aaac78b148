// SPDX-License-Identifier: Apache-2.0
// [Note: clear-to-send before data] in src/comm/world/mpi_communicator.cpp: the order of an exchange's calls, seen through
// MPI's profiling interface.
#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <cstddef>
#include <string>

#include "support/mpi_main.hpp"

namespace {
std::string calls;
}  // namespace

extern "C" int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm group,
                         MPI_Request* request) {
  calls += "send ";
  return PMPI_Isend(data, count, type, to, tag, group, request);
}

extern "C" int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm group, MPI_Request* request) {
  calls += "receive ";
  return PMPI_Irecv(data, count, type, from, tag, group, request);
}

namespace shoal::comm {
namespace {

TEST(Exchange, PostsWhatItSendsFirst) {
  Communicator& all = shoal::test::world().all();
  const int partner = 1 - all.rank();
  const std::byte own{static_cast<unsigned char>(all.rank())}, others{static_cast<unsigned char>(partner)};
  std::array<std::byte, 2> out = {own, own}, in = {};
  calls.clear();
  all.exchange({{partner, Span<std::byte>(out).first(1)}, {partner, Span<std::byte>(out).subspan(1)}},
               {{partner, Span<std::byte>(in).first(1)}, {partner, Span<std::byte>(in).subspan(1)}}, 0)
      .wait();
  EXPECT_EQ(calls, "send send receive receive ");
  EXPECT_EQ(in, (std::array{others, others}));
}

}  // namespace
}  // namespace shoal::comm
