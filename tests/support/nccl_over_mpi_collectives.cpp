// SPDX-License-Identifier: Apache-2.0
// The double's collectives: each rank sends to each, and computes what it needs in the order of ranks.
#include <algorithm>
#include <cstring>

#include "nccl_over_mpi.hpp"

using namespace shoal::test::nccl;  // NOLINT: functions of nccl.h are in no namespace

namespace {

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

}  // namespace

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
