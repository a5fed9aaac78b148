// SPDX-License-Identifier: Apache-2.0
// Stands for NCCL in tests: the functions of nccl.h that shoal calls, for arenas of the simulated device, over MPI. It
// checks what NCCL demands and MPI forgives: that calls are on memory of the device, that messages are paired and equally
// large on both sides, and that all ranks of a communicator make the same collective calls in the same order. It fails and
// delays as the environment asks (nccl_over_mpi.hpp). Messages are those of MPI_COMM_WORLD, with tags that nothing else uses
// there.
//
// Here: errors, groups of calls, and messages between two ranks. Communicators and collectives are beside.
#include "nccl_over_mpi.hpp"

#include <map>
#include <utility>

#include "shoal/base/error.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/device/simulated.hpp"

using namespace shoal::test::nccl;  // NOLINT: functions of nccl.h are in no namespace
using shoal::text;

namespace {

std::string last_words;

thread_local int depth = 0;
thread_local std::vector<std::shared_ptr<Call>> group;  // calls between ncclGroupStart() and ncclGroupEnd()
thread_local std::vector<std::function<void()>> at_end;

ncclResult_t message(bool sends, const void* at, std::size_t bytes, int peer, ncclComm_t comm, cudaStream_t stream) {
  if (const ncclResult_t problem = problem_of(comm, {{at, bytes}}); problem != ncclSuccess) return problem;
  if (peer < 0 || peer >= static_cast<int>(comm->world.size()) || peer == comm->rank) {
    return wrong(ncclInvalidArgument, text("a message between rank ", comm->rank, " and rank ", peer));
  }
  if (depth == 0) return wrong(ncclInvalidUsage, "a single message, which may wait for ever");
  if (group.empty() || group.back()->comm != comm || group.back()->stream != stream || group.back()->finish) {
    group.push_back(std::make_shared<Call>());
    group.back()->comm = comm;
    group.back()->stream = stream;
  }
  Header header;
  header.bytes = static_cast<std::int64_t>(bytes);
  std::vector<Transfer>& list = sends ? group.back()->sends : group.back()->receives;
  list.push_back({peer, address(at), bytes, header});
  return ncclSuccess;
}

}  // namespace

namespace shoal::test::nccl {

ncclResult_t wrong(ncclResult_t result, std::string words) {
  last_words = std::move(words);
  return result;
}

std::size_t size_of_type(ncclDataType_t type) {
  static const std::map<ncclDataType_t, std::size_t> sizes = {
      {ncclUint8, 1}, {ncclFloat32, 4}, {ncclFloat64, 8}, {ncclInt64, 8}, {ncclUint64, 8}};
  return sizes.at(type);
}

ncclResult_t problem_of(ncclComm_t comm, std::initializer_list<std::pair<const void*, std::size_t>> memory) {
  if (settings().forbidden) return wrong(ncclInternalError, "a call although calls are forbidden");
  if (comm == nullptr || comm->aborted || comm->in_progress) return wrong(ncclInvalidArgument, "no usable communicator");
  if (comm->error != ncclSuccess) return comm->error;
  for (const auto& [at, bytes] : memory) {
    const auto* const first = static_cast<const std::byte*>(at);
    if (bytes > 0 && !(shoal::device::holds(first) && shoal::device::holds(first + bytes - 1))) {
      return wrong(ncclInvalidArgument, text(bytes, " bytes that are not in memory of the device"));
    }
  }
  return ncclSuccess;
}

ncclResult_t add(std::shared_ptr<Call> call) {
  if (depth > 0) {
    group.push_back(std::move(call));
  } else {
    enqueue(call);
  }
  return ncclSuccess;
}

ncclResult_t at_end_of_group(std::function<void()> act) {
  constexpr int first_with_groups_of_aborts = NCCL_VERSION(2, 22, 3);
  if (depth > 0 && settings().version >= first_with_groups_of_aborts) {
    at_end.push_back(std::move(act));
  } else {
    act();
  }
  return ncclSuccess;
}

std::byte* address(const void* at) { return shoal::device::simulated::address_for_messages(at); }

}  // namespace shoal::test::nccl

ncclResult_t ncclGetVersion(int* version) {
  *version = settings().version;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  static constexpr std::array names = {"no error",         "unhandled CUDA error", "system error", "internal error",
                                       "invalid argument", "invalid usage",        "remote error", "in progress"};
  return names.at(static_cast<std::size_t>(result));
}

const char* ncclGetLastError(ncclComm_t comm) {
  return comm != nullptr && !comm->words.empty() ? comm->words.c_str() : last_words.c_str();
}

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (--depth > 0) return ncclSuccess;
  for (const std::shared_ptr<Call>& call : std::exchange(group, {})) {
    if (!call->finish) call->finish = [] {};
    enqueue(call);
  }
  for (const std::function<void()>& act : std::exchange(at_end, {})) act();
  return ncclSuccess;
}

ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return message(true, data, count * size_of_type(type), peer, comm, stream);
}
ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return message(false, data, count * size_of_type(type), peer, comm, stream);
}
