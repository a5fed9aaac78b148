// SPDX-License-Identifier: Apache-2.0
// Stands for NCCL in tests: the functions of nccl.h that shoal calls, for arenas of the simulated device, over MPI. It
// checks what NCCL demands and MPI forgives: that calls are on memory of the device, that messages are paired and equally
// large on both sides, and that all ranks of a communicator make the same collective calls in the same order. It fails and
// delays as the environment asks (nccl_over_mpi.hpp). Messages are those of MPI_COMM_WORLD, with tags that nothing else uses
// there.
#include "nccl_over_mpi.hpp"

#include <cstring>
#include <map>
#include <utility>

#include "shoal/base/error.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/device/simulated.hpp"

using namespace shoal::test::nccl;  // NOLINT: functions of nccl.h are in no namespace
using shoal::text;

namespace {

std::string last_words;

ncclResult_t wrong(ncclResult_t result, std::string words) {
  last_words = std::move(words);
  return result;
}

// How communicators are made.

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

ncclResult_t check_config(const ncclConfig_t* config) {
  if (settings().forbidden) return wrong(ncclInternalError, "a call although calls are forbidden");
  const bool fine = config != nullptr && config->magic == 0xcafebeef && config->blocking == 0;
  return fine ? ncclSuccess : wrong(ncclInvalidArgument, "a communicator that is not made with blocking = 0");
}

// Groups of calls.

int depth = 0;
std::vector<std::shared_ptr<Call>> group;  // calls between ncclGroupStart() and ncclGroupEnd()

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

std::byte* address(const void* at) { return shoal::device::simulated::address_for_messages(at); }

// Collectives: each rank sends to each, and computes what it needs in the order of ranks.

struct Collective {
  std::shared_ptr<Call> call = std::make_shared<Call>();
  Header header;
  Collective(ncclComm_t comm, cudaStream_t stream, Header::Kind kind, std::size_t bytes, int type, int how, int root)
      : header{kind, static_cast<std::int64_t>(bytes), type, how, root, ++comm->collectives} {
    call->comm = comm;
    call->stream = stream;
    call->temporary.reserve(comm->world.size());
  }
  int ranks() const { return static_cast<int>(call->comm->world.size()); }
  int own() const { return call->comm->rank; }
  void send(int to, std::byte* at, std::size_t bytes) { call->sends.push_back({to, at, bytes, header}); }
  void receive(int from, std::byte* at, std::size_t bytes) { call->receives.push_back({from, at, bytes, header}); }
  std::byte* temporary(std::size_t bytes) { return call->temporary.emplace_back(bytes).data(); }
};

template <typename T>
void combine(std::size_t bytes, const std::byte* from, std::byte* into, ncclRedOp_t how) {
  for (std::size_t i = 0; i < bytes; i += sizeof(T)) {
    T a, b;
    std::memcpy(&a, into + i, sizeof a);
    std::memcpy(&b, from + i, sizeof b);
    a = how == ncclSum ? static_cast<T>(a + b) : how == ncclMin ? std::min(a, b) : std::max(a, b);
    std::memcpy(into + i, &a, sizeof a);
  }
}

void combine(ncclDataType_t type, std::size_t bytes, const std::byte* from, std::byte* into, ncclRedOp_t how) {
  if (type == ncclFloat32) combine<float>(bytes, from, into, how);
  if (type == ncclFloat64) combine<double>(bytes, from, into, how);
  if (type == ncclInt64) combine<std::int64_t>(bytes, from, into, how);
  if (type == ncclUint64) combine<std::uint64_t>(bytes, from, into, how);
}

/// Rank r gets the result of the bytes part(r) .. part(r) + bytes of all ranks' data, if gets(r).
template <typename Part, typename Gets>
ncclResult_t reduction(Collective collective, const void* data, void* result, std::size_t bytes, ncclDataType_t type,
                       ncclRedOp_t how, const Part& part, const Gets& gets) {
  std::byte* const from = address(data);
  const int own = collective.own(), ranks = collective.ranks();
  std::vector<const std::byte*> terms(static_cast<std::size_t>(ranks), from + part(own));
  for (int r = 0; r < ranks; ++r) {
    if (r == own) continue;
    collective.send(r, from + part(r), gets(r) ? bytes : 0);  // a message without bytes still compares the calls
    std::byte* const to = collective.temporary(gets(own) ? bytes : 0);
    collective.receive(r, to, gets(own) ? bytes : 0);
    terms[static_cast<std::size_t>(r)] = to;
  }
  std::byte* const into = address(result);
  collective.call->finish = [=, mine = gets(own)] {
    if (!mine || bytes == 0) return;
    std::vector<std::byte> sum(terms.front(), terms.front() + bytes);
    for (std::size_t r = 1; r < terms.size(); ++r) combine(type, bytes, terms[r], sum.data(), how);
    std::memcpy(into, sum.data(), bytes);
  };
  return add(collective.call);
}

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

/// Communicators stay until the process ends, since calls on the device may still look at them.
ncclComm* new_communicator() {
  static auto* const all = new std::vector<std::unique_ptr<ncclComm>>;
  return all->emplace_back(std::make_unique<ncclComm>()).get();
}

}  // namespace

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

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (settings().forbidden) return wrong(ncclInternalError, "a call although calls are forbidden");
  std::memset(id, 0, sizeof *id);
  std::memcpy(id->internal, "double", sizeof "double");
  id->internal[NCCL_UNIQUE_ID_BYTES - 1] = static_cast<char>(communicators + 1);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (const ncclResult_t problem = check_config(config); problem != ncclSuccess) return problem;
  std::vector<int> world(static_cast<std::size_t>(ranks));
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != ranks) return wrong(ncclInvalidArgument, "the first communicator must have all ranks");
  for (int r = 0; r < ranks; ++r) world[static_cast<std::size_t>(r)] = r;
  ncclComm* const made = new_communicator();
  made->number = ++communicators;
  made->rank = rank;
  made->in_progress = never;
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
  if (const ncclResult_t problem = check_config(config); problem != ncclSuccess) return problem;
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
    for (const auto& [order, in_world] : members) {
      if (order.second == comm->rank) made->rank = static_cast<int>(made->world.size());
      made->world.push_back(in_world);
    }
    *part = made;
    return true;
  };
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (settings().forbidden) return wrong(ncclInternalError, "a call although calls are forbidden");
  if (comm->in_progress && comm->in_progress()) comm->in_progress = nullptr;
  *error = comm->error != ncclSuccess ? comm->error : comm->in_progress ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->aborted = true;
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm->done != comm->enqueued) return wrong(ncclInvalidUsage, "a communicator is ended before its calls are");
  return ncclSuccess;
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
  return ncclSuccess;
}

ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return message(true, data, count * size_of_type(type), peer, comm, stream);
}
ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return message(false, data, count * size_of_type(type), peer, comm, stream);
}

ncclResult_t ncclAllGather(const void* data, void* all, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  const std::size_t bytes = count * size_of_type(type);
  if (const ncclResult_t problem = problem_of(comm, {{data, bytes}, {all, bytes * comm->world.size()}});
      problem != ncclSuccess) {
    return problem;
  }
  Collective collective(comm, stream, Header::all_gather, bytes, type, 0, 0);
  std::byte* const from = address(data);
  std::byte* const into = address(all);
  const auto place = [&](int r) { return into + static_cast<std::size_t>(r) * bytes; };
  for (int r = 0; r < collective.ranks(); ++r) {
    if (r == collective.own()) continue;
    collective.send(r, from, bytes);
    collective.receive(r, place(r), bytes);
  }
  collective.call->finish = [=, own = place(collective.own())] {
    if (own != from) std::memcpy(own, from, bytes);
  };
  return add(collective.call);
}

ncclResult_t ncclReduceScatter(const void* data, void* result, size_t count, ncclDataType_t type, ncclRedOp_t how,
                               ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * size_of_type(type);
  if (const ncclResult_t problem = problem_of(comm, {{data, bytes * comm->world.size()}, {result, bytes}});
      problem != ncclSuccess) {
    return problem;
  }
  const auto part = [=](int r) { return static_cast<std::size_t>(r) * bytes; };
  return reduction({comm, stream, Header::reduce_scatter, bytes, type, how, 0}, data, result, bytes, type, how, part,
                   [](int) { return true; });
}

ncclResult_t ncclReduce(const void* data, void* result, size_t count, ncclDataType_t type, ncclRedOp_t how, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * size_of_type(type);
  if (const ncclResult_t problem =
          problem_of(comm, {{data, bytes}, {result, comm != nullptr && comm->rank == root ? bytes : 0}});
      problem != ncclSuccess) {
    return problem;
  }
  return reduction(
      {comm, stream, Header::reduce, bytes, type, how, root}, data, result, bytes, type, how,
      [](int) { return std::size_t{0}; }, [=](int r) { return r == root; });
}

ncclResult_t ncclAllReduce(const void* data, void* result, size_t count, ncclDataType_t type, ncclRedOp_t how,
                           ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * size_of_type(type);
  if (const ncclResult_t problem = problem_of(comm, {{data, bytes}, {result, bytes}}); problem != ncclSuccess)
    return problem;
  return reduction(
      {comm, stream, Header::all_reduce, bytes, type, how, 0}, data, result, bytes, type, how,
      [](int) { return std::size_t{0}; }, [](int) { return true; });
}

ncclResult_t ncclBroadcast(const void* data, void* result, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  const std::size_t bytes = count * size_of_type(type);
  if (const ncclResult_t problem = problem_of(comm, {{data, bytes}, {result, bytes}}); problem != ncclSuccess)
    return problem;
  Collective collective(comm, stream, Header::broadcast, bytes, type, 0, root);
  const bool sends = comm->rank == root;
  for (int r = 0; r < collective.ranks(); ++r) {
    if (r == comm->rank) continue;
    collective.send(r, address(data), sends ? bytes : 0);
    collective.receive(r, address(result), r == root ? bytes : 0);
  }
  collective.call->finish = [=, from = address(data), into = address(result)] {
    if (sends && from != into) std::memcpy(into, from, bytes);
  };
  return add(collective.call);
}
