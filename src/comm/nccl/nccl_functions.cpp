// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/nccl_functions.hpp"

#include <algorithm>

#include "shoal/device/queue.hpp"

namespace shoal::comm {

namespace {

bool fine(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

template <typename Calls>
ncclResult_t grouped(const Calls& calls) {
  const ncclResult_t begun = ncclGroupStart();
  if (begun != ncclSuccess) return begun;
  const ncclResult_t called = calls();
  const ncclResult_t ended = ncclGroupEnd();
  return fine(called) ? ended : called;
}

ncclResult_t copied(Span<const std::byte> from, Span<std::byte> to) {
  if (from.data() != to.data()) device::copy(from.size(), from.data(), to.data());
  return ncclSuccess;
}

}  // namespace

ncclRedOp_t nccl_operator(Reduce how) { return how == Reduce::sum ? ncclSum : how == Reduce::min ? ncclMin : ncclMax; }

ncclResult_t nccl_exchange(const std::vector<Outgoing>& outgoing, const std::vector<Incoming>& incoming, ncclComm_t comm,
                           cudaStream_t stream) {
  if (comm == nullptr) return ncclSuccess;
  return grouped([&] {
    ncclResult_t result = ncclSuccess;
    for (const auto& [to, data] : outgoing) {
      if (!data.empty() && fine(result)) result = ncclSend(data.data(), data.size(), ncclUint8, to, comm, stream);
    }
    for (const auto& [from, data] : incoming) {
      if (!data.empty() && fine(result)) result = ncclRecv(data.data(), data.size(), ncclUint8, from, comm, stream);
    }
    return result;
  });
}

ncclResult_t nccl_all_gather(Span<const std::byte> shard, Span<std::byte> all, ncclComm_t comm, cudaStream_t stream) {
  if (comm == nullptr) return copied(shard, all);
  return ncclAllGather(shard.data(), all.data(), shard.size(), ncclUint8, comm, stream);
}

/// NCCL's own call has parts of one size.
ncclResult_t nccl_reduce_scatter(Span<const std::byte> data, const std::vector<std::size_t>& parts, Span<std::byte> own,
                                 ncclComm_t comm, cudaStream_t stream) {
  if (comm == nullptr) return copied(data, own);
  const bool equal = std::all_of(parts.begin(), parts.end(), [&](std::size_t part) { return part == parts.front(); });
  const std::size_t count = own.size() / sizeof(float);
  if (equal) return ncclReduceScatter(data.data(), own.data(), count, ncclFloat32, ncclSum, comm, stream);
  return grouped([&] {
    ncclResult_t result = ncclSuccess;
    for (std::size_t r = 0, begin = 0; r < parts.size() && fine(result); begin += parts[r++]) {
      if (parts[r] == 0) continue;
      result = ncclReduce(data.data() + begin, own.data(), parts[r] / sizeof(float), ncclFloat32, ncclSum,
                          static_cast<int>(r), comm, stream);
    }
    return result;
  });
}

ncclResult_t nccl_broadcast(Span<std::byte> data, int root, ncclComm_t comm, cudaStream_t stream) {
  if (comm == nullptr) return ncclSuccess;
  return ncclBroadcast(data.data(), data.data(), data.size(), ncclUint8, root, comm, stream);
}

}  // namespace shoal::comm
