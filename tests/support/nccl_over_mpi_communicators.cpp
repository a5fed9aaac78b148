// SPDX-License-Identifier: Apache-2.0
// How the double makes and ends communicators.
#include <chrono>
#include <cstring>
#include <map>
#include <utility>

#include "nccl_over_mpi.hpp"

using namespace shoal::test::nccl;  // NOLINT: functions of nccl.h are in no namespace

namespace {

int communicators = 0;

/// Every rank of `world` tells all others three numbers.
struct Handshake {
  using Numbers = std::array<std::int64_t, 3>;
  std::vector<Numbers> all;
  Numbers own;
  std::vector<MPI_Request> requests;
  Handshake(const std::vector<int>& world, int number, const Numbers& mine) : all(world.size()), own(mine) {
    const int tag = 2 * number + 1;
    for (std::size_t r = 0; r < world.size(); ++r) {
      MPI_Irecv(&all[r], sizeof(Numbers), MPI_BYTE, world[r], tag, MPI_COMM_WORLD, &requests.emplace_back());
      MPI_Isend(&own, sizeof(Numbers), MPI_BYTE, world[r], tag, MPI_COMM_WORLD, &requests.emplace_back());
    }
  }
  bool complete() {
    int done = 0;
    MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
    return done != 0;
  }
};

bool never() { return false; }

ncclResult_t check_config(const ncclConfig_t* config, bool blocking) {
  if (settings().forbidden) return wrong(ncclInternalError, "a call although calls are forbidden");
  if (config == nullptr || config->magic != 0xcafebeef) return wrong(ncclInvalidArgument, "no configuration");
  if (config->blocking != (blocking ? 1 : 0)) {
    return wrong(ncclInvalidArgument, blocking ? "each call of this communicator would start a thread"
                                               : "this rank would wait for missing ranks for ever");
  }
  return config->splitShare == 1 ? ncclSuccess
                                 : wrong(ncclInvalidArgument, "a communicator that shares no buffers with its parts");
}

/// Until the device has come past the communicator's calls: what stands before them on their streams must end, too. The
/// thread of the watchdog, which ends the process, cannot let the simulated device work.
void wait_for_calls(ncclComm& comm) {
  if (comm.thread != std::this_thread::get_id()) return;
  while (!comm.unfinished.empty()) {
    const std::shared_ptr<Call> call = *comm.unfinished.begin();
    if (call->behind.reached()) comm.unfinished.erase(call);  // or nobody knows it any more
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

/// Communicators stay until the process ends, since calls on the device may still look at them.
ncclComm* new_communicator() {
  static auto* const all = new std::vector<std::unique_ptr<ncclComm>>;
  return all->emplace_back(std::make_unique<ncclComm>()).get();
}

}  // namespace

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (settings().forbidden) return wrong(ncclInternalError, "a call although calls are forbidden");
  std::memset(id, 0, sizeof *id);
  std::memcpy(id->internal, "double", sizeof "double");
  id->internal[NCCL_UNIQUE_ID_BYTES - 1] = static_cast<char>(communicators + 1);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (const ncclResult_t problem = check_config(config, false); problem != ncclSuccess) return problem;
  std::vector<int> world(static_cast<std::size_t>(ranks));
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != ranks) return wrong(ncclInvalidArgument, "the first communicator must have all ranks");
  for (int r = 0; r < ranks; ++r) world[static_cast<std::size_t>(r)] = r;
  ncclComm* const made = new_communicator();
  made->number = ++communicators;
  made->rank = rank;
  made->in_progress = never;
  if (settings().connections) note_origin(*made);
  *comm = made;
  if (settings().stuck_init) return ncclInProgress;
  const std::int64_t mark = id.internal[0] + 256 * id.internal[NCCL_UNIQUE_ID_BYTES - 1];
  const auto handshake = std::make_shared<Handshake>(world, made->number, Handshake::Numbers{mark, ranks, rank});
  made->in_progress = [=] {
    if (!handshake->complete()) return false;
    made->world.resize(handshake->all.size());
    for (std::size_t r = 0; r < handshake->all.size(); ++r) {
      const auto& [id_of_r, ranks_of_r, place] = handshake->all[r];
      if (id_of_r != mark || ranks_of_r != ranks) made->fail(ncclInvalidArgument, "ranks with different ids");
      made->world[static_cast<std::size_t>(place)] = static_cast<int>(r);
    }
    return true;
  };
  return ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* part, ncclConfig_t* config) {
  if (const ncclResult_t problem = problem_of(comm, {}); problem != ncclSuccess) return problem;
  if (const ncclResult_t problem = check_config(config, true); problem != ncclSuccess) return problem;
  const int number = ++communicators;
  comm->in_progress = never;
  if (settings().stuck_split) return ncclInProgress;
  const auto handshake = std::make_shared<Handshake>(comm->world, number, Handshake::Numbers{color, key, comm->rank});
  comm->in_progress = [=] {
    if (!handshake->complete()) return false;
    if (color == NCCL_SPLIT_NOCOLOR) return true;
    std::map<std::pair<std::int64_t, std::int64_t>, int> members;  // by key and rank
    for (std::size_t r = 0; r < handshake->all.size(); ++r) {
      const auto& [color_of_r, key_of_r, rank] = handshake->all[r];
      if (color_of_r == color) members[{key_of_r, rank}] = comm->world[r];
    }
    ncclComm* const made = new_communicator();
    made->number = number;
    made->order = comm->order;  // splitShare
    for (const auto& [order, in_world] : members) {
      if (order.second == comm->rank) made->rank = static_cast<int>(made->world.size());
      made->world.push_back(in_world);
    }
    *part = made;
    return true;
  };
  return ncclSuccess;  // as NCCL does, although both communicators are busy
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (settings().forbidden) return wrong(ncclInternalError, "a call although calls are forbidden");
  if (comm->in_progress && comm->in_progress()) comm->in_progress = nullptr;
  *error = comm->error != ncclSuccess ? comm->error : comm->in_progress ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->aborted = true;
  return at_end_of_group([comm] { wait_for_calls(*comm); });
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm->done != comm->enqueued) return wrong(ncclInvalidUsage, "a communicator is ended before its calls are");
  return ncclSuccess;
}
