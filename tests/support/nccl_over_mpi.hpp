// SPDX-License-Identifier: Apache-2.0
// The parts of the test double of NCCL (nccl_over_mpi.cpp).
#pragma once

#include <mpi.h>
#include <nccl.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "shoal/device/queue.hpp"

namespace shoal::test::nccl {

/// SHOAL_NCCL_DOUBLE: words with commas between them. WORD@R holds on rank R alone (of MPI_COMM_WORLD).
///   delay         calls begin late, by random times (SHOAL_SEED), and messages of a call to different ranks in random order
///   serial        a rank's calls are made one after another, whatever their communicators and streams: a GPU that has room
///                 for one at a time. It hangs if ranks make the calls of different communicators in different orders
///   die:N         this rank's call N = 1, 2, ... meets an asynchronous error
///   stop:N        it never ends
///   block:N       it never returns
///   version:N     the library is version N. Below 2.26 it keeps no order of calls of different communicators: a call that
///                 begins before an earlier one has ended is an error. Below 2.22.3 a group of aborts is no better than
///                 aborts one after another
///   connections   prints each communicator's first message to and from a rank, when NCCL takes memory for the connection,
///                 its first collective, and the phase in which it is made; and the communicators of all ranks that are made
///                 from an id
///   stuck-init    the first communicator is never made
///   stuck-split   a split never ends
///   forbidden     every call is an error, but for the version
struct Settings {
  bool delay = false, serial = false, connections = false, stuck_init = false, stuck_split = false, forbidden = false;
  std::uint64_t die = 0, stop = 0, block = 0;
  int version = NCCL_VERSION_CODE;
};
/// Read at the first call.
const Settings& settings();

/// What both ends of a message, or all ranks of a collective, must agree on.
struct Header {
  enum Kind : std::int64_t { message, all_gather, reduce_scatter, reduce, broadcast, all_reduce };
  Kind kind = message;
  std::int64_t bytes = 0, type = 0, how = 0, root = 0;
  std::uint64_t sequence = 0;  // of collectives
  bool operator==(const Header&) const = default;
};

/// A message between two ranks; the header is sent before the bytes.
struct Transfer {
  int rank = 0;  // of the communicator
  std::byte* at = nullptr;
  std::size_t bytes = 0;
  Header header;
  Header got{};
  std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  enum { waiting, header_sent, payload_sent, complete } state = waiting;
};

/// Calls of one group, all messages of which are under way together.
struct Call {
  ncclComm_t comm = nullptr;
  void* stream = nullptr;
  std::uint64_t sequence = 0;    // among the calls of the communicator and of those that share its buffers
  std::uint64_t of_process = 0;  // among those of all communicators
  std::vector<Transfer> sends, receives;
  std::vector<std::vector<std::byte>> temporary;
  std::function<void()> finish;  // when all messages have arrived
  device::Event behind;
  int delay = 0;
  bool begun = false, stuck = false;
};

/// For the word `connections`.
void note_connections(const Call& call);
void note_origin(const ncclComm& comm);

/// Enqueues the call on its stream.
void enqueue(const std::shared_ptr<Call>& call);
/// The same, or at the end of the group of calls that is open.
ncclResult_t add(std::shared_ptr<Call> call);
/// Calls act(), or lets the end of the group of calls that is open do it.
ncclResult_t at_end_of_group(std::function<void()> act);

/// Returns `result`, and keeps the words for ncclGetLastError().
ncclResult_t wrong(ncclResult_t result, std::string words);
/// Returns ncclSuccess if the communicator can be used, and the memory is the device's.
ncclResult_t problem_of(ncclComm_t comm, std::initializer_list<std::pair<const void*, std::size_t>> memory);
std::size_t size_of_type(ncclDataType_t type);
/// Where MPI reads and writes memory of the device.
std::byte* address(const void* at);

}  // namespace shoal::test::nccl

/// NCCL carries out the calls of a communicator, and of those that share its buffers, one after another, whatever their
/// streams.
struct OneAfterAnother {
  std::uint64_t enqueued = 0, done = 0;
};

struct ncclComm {
  int number = 0, rank = 0;
  std::shared_ptr<OneAfterAnother> order = std::make_shared<OneAfterAnother>();
  std::vector<int> world;  // the number of each rank in MPI_COMM_WORLD
  ncclResult_t error = ncclSuccess;
  std::string words;
  std::thread::id thread = std::this_thread::get_id();
  std::atomic<bool> aborted = false;
  std::uint64_t enqueued = 0, done = 0, collectives = 0;
  std::set<std::shared_ptr<shoal::test::nccl::Call>> unfinished;
  std::set<std::string> connected;
  std::function<bool()> in_progress;  // returns true when what is in progress has ended; empty: nothing is
  void fail(ncclResult_t result, std::string what) {
    if (error != ncclSuccess) return;
    error = result;
    words = std::move(what);
  }
};
