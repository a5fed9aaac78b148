// SPDX-License-Identifier: Apache-2.0
// Says when the double would have connected ranks. NCCL takes memory of the GPU for the messages between two ranks of a
// communicator when the first of them is sent, and for a communicator's collectives at its first one.
#include <cstdio>

#include "nccl_over_mpi.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"

namespace shoal::test::nccl {

namespace {

void note(ncclComm& comm, const std::string& with) {
  if (!comm.connected.insert(with).second) return;
  const std::string line =
      text("double of NCCL: rank ", comm.world[static_cast<std::size_t>(comm.rank)], " connects communicator ", comm.number,
           ' ', with, " in phase ", heartbeat::current_phase(), '\n');
  std::fputs(line.c_str(), stderr);
}

void note(const Call& call, const std::vector<Transfer>& transfers, const char* direction) {
  for (const Transfer& transfer : transfers) {
    const bool message = transfer.header.kind == Header::message;
    const int rank = call.comm->world[static_cast<std::size_t>(transfer.rank)];
    note(*call.comm, message ? text(direction, " rank ", rank) : "for collectives");
  }
}

}  // namespace

void note_origin(const ncclComm& comm) {
  const std::string line = text("double of NCCL: rank ", comm.rank, " makes communicator ", comm.number, " in phase ",
                                heartbeat::current_phase(), '\n');
  std::fputs(line.c_str(), stderr);
}

void note_connections(const Call& call) {
  note(call, call.sends, "to");
  note(call, call.receives, "from");
}

}  // namespace shoal::test::nccl
