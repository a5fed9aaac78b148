// SPDX-License-Identifier: Apache-2.0
// How the double carries out a call: work of the simulated device, which posts messages and waits for them.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <random>
#include <utility>

#include "nccl_over_mpi.hpp"
#include "shoal/base/error.hpp"
#include "shoal/device/queue.hpp"
#include "shoal/device/simulated.hpp"

namespace shoal::test::nccl {

namespace {

int tag_of(const ncclComm& comm) { return 2 * comm.number; }
int peer_of(const Call& call, const Transfer& transfer) { return call.comm->world[static_cast<std::size_t>(transfer.rank)]; }

int count_of(std::size_t bytes) {
  require(bytes <= static_cast<std::size_t>(std::numeric_limits<int>::max()), "the double of NCCL cannot send ", bytes,
          " bytes at once");
  return static_cast<int>(bytes);
}

void post_send(const Call& call, Transfer& send) {
  const int to = peer_of(call, send), tag = tag_of(*call.comm);
  MPI_Isend(&send.header, sizeof send.header, MPI_BYTE, to, tag, MPI_COMM_WORLD, send.requests.data());
  MPI_Isend(send.at, count_of(send.bytes), MPI_BYTE, to, tag, MPI_COMM_WORLD, &send.requests[1]);
  send.state = Transfer::payload_sent;
}

bool test_all(Transfer& transfer) {
  int complete = 0;
  MPI_Testall(static_cast<int>(transfer.requests.size()), transfer.requests.data(), &complete, MPI_STATUSES_IGNORE);
  return complete != 0;
}

std::string text_of(const Header& header) {
  static constexpr std::array names = {"send", "all_gather", "reduce_scatter", "reduce", "broadcast", "all_reduce"};
  return text(names.at(static_cast<std::size_t>(header.kind)), " of ", header.bytes, " bytes, type ", header.type,
              ", operator ", header.how, ", root ", header.root, ", number ", header.sequence);
}

/// Returns true if the message has arrived.
bool advance_receive(const Call& call, Transfer& receive) {
  const int from = peer_of(call, receive), tag = tag_of(*call.comm);
  if (receive.state == Transfer::waiting) {
    MPI_Irecv(&receive.got, sizeof receive.got, MPI_BYTE, from, tag, MPI_COMM_WORLD, receive.requests.data());
    receive.state = Transfer::header_sent;
  }
  if (receive.state == Transfer::header_sent && test_all(receive)) {
    if (receive.got != receive.header) {
      call.comm->fail(ncclInvalidUsage, text("rank ", call.comm->rank, " has ", text_of(receive.header), ", but rank ",
                                             receive.rank, " has ", text_of(receive.got)));
      return false;
    }
    MPI_Irecv(receive.at, count_of(receive.bytes), MPI_BYTE, from, tag, MPI_COMM_WORLD, &receive.requests[1]);
    receive.state = Transfer::payload_sent;
  }
  if (receive.state == Transfer::payload_sent && test_all(receive)) receive.state = Transfer::complete;
  return receive.state == Transfer::complete;
}

/// Messages between two ranks are paired in their order, so a message is received after the one before it.
bool advance_receives(Call& call) {
  bool complete = true;
  std::vector<int> busy;
  for (Transfer& receive : call.receives) {
    if (receive.state == Transfer::complete) continue;
    if (std::find(busy.begin(), busy.end(), receive.rank) == busy.end() && advance_receive(call, receive)) continue;
    busy.push_back(receive.rank);
    complete = false;
  }
  return complete;
}

/// SHOAL_SEED repeats an earlier run's.
unsigned seed() {
  const char* const given = std::getenv("SHOAL_SEED");
  if (given == nullptr) return std::random_device{}();
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return static_cast<unsigned>(std::strtoul(given, nullptr, 10)) + 977U * static_cast<unsigned>(rank);
}

std::mt19937& random_numbers() {
  static std::mt19937 numbers(seed());
  return numbers;
}

std::uint64_t calls_of_process = 0, done_of_process = 0;

/// The first version that keeps the order of calls of different communicators.
constexpr int keeps_order = NCCL_VERSION(2, 26, 0);

/// Returns true if the call may begin.
bool is_next(const Call& call) {
  const bool next = done_of_process + 1 == call.of_process;
  if (settings().version < keeps_order && !next) {
    call.comm->fail(ncclInvalidUsage, text("call ", call.of_process, " of this process begins when only ", done_of_process,
                                           " have ended, and this version keeps no order"));
    return false;
  }
  return next || !settings().serial;
}

bool advance(const std::shared_ptr<Call>& call) {
  static std::vector<std::shared_ptr<Call>> abandoned;  // MPI may still use their members
  ncclComm& comm = *call->comm;
  if (comm.aborted) {
    if (call->begun) abandoned.push_back(call);
    return true;
  }
  if (comm.error != ncclSuccess || call->stuck || comm.order->done + 1 != call->sequence) return false;
  if (call->delay > 0) return --call->delay < 0;
  if (!call->begun && !is_next(*call)) return false;
  if (!std::exchange(call->begun, true)) {
    for (Transfer& send : call->sends) post_send(*call, send);
  }
  bool complete = advance_receives(*call);
  for (Transfer& send : call->sends) complete = test_all(send) && complete;
  if (!complete || comm.error != ncclSuccess) return false;
  call->finish();
  ++comm.done;
  ++comm.order->done;
  ++done_of_process;
  return true;
}

}  // namespace

void enqueue(const std::shared_ptr<Call>& call) {
  if (settings().connections) note_connections(*call);
  call->of_process = ++calls_of_process;
  while (calls_of_process == settings().block) std::this_thread::sleep_for(std::chrono::seconds(1));
  ++call->comm->enqueued;
  call->sequence = ++call->comm->order->enqueued;
  if (settings().delay) {
    call->delay = static_cast<int>(random_numbers()() % 8);
    const auto by_rank = [first = static_cast<int>(random_numbers()() % 8)](const Transfer& a, const Transfer& b) {
      return (a.rank ^ first) < (b.rank ^ first);
    };
    std::stable_sort(call->sends.begin(), call->sends.end(), by_rank);
    std::stable_sort(call->receives.begin(), call->receives.end(), by_rank);
  }
  call->stuck = calls_of_process == settings().stop || calls_of_process == settings().die;
  if (calls_of_process == settings().die) call->comm->fail(ncclRemoteError, "as SHOAL_NCCL_DOUBLE asks for");
  const auto queue = static_cast<device::Queue>(reinterpret_cast<std::uintptr_t>(call->stream) - 1);
  const device::OnQueue there(queue);
  call->comm->unfinished.insert(call);
  device::simulated::enqueue_waiting([call] {
    const bool ended = advance(call);
    if (ended) call->comm->unfinished.erase(call);
    return ended;
  });
  call->behind.record();
}

}  // namespace shoal::test::nccl
