// SPDX-License-Identifier: Apache-2.0
// NCCL's functions as groups of ranks need them: types, and calls that are made of several. A rank that is alone in its
// group has no communicator; then nothing is sent.
#pragma once

#include <nccl.h>

#include <vector>

#include "shoal/comm/communicator.hpp"

namespace shoal::comm {

template <typename T>
ncclDataType_t nccl_type();
template <>
inline ncclDataType_t nccl_type<float>() {
  return ncclFloat32;
}
template <>
inline ncclDataType_t nccl_type<double>() {
  return ncclFloat64;
}
template <>
inline ncclDataType_t nccl_type<std::int64_t>() {
  return ncclInt64;
}
template <>
inline ncclDataType_t nccl_type<std::uint64_t>() {
  return ncclUint64;
}

ncclRedOp_t nccl_operator(Reduce how);

/// Communicator::exchange().
ncclResult_t nccl_exchange(const std::vector<Outgoing>& outgoing, const std::vector<Incoming>& incoming, ncclComm_t comm,
                           cudaStream_t stream);
/// Communicator::all_gather().
ncclResult_t nccl_all_gather(Span<const std::byte> shard, Span<std::byte> all, ncclComm_t comm, cudaStream_t stream);
/// Communicator::reduce_scatter().
ncclResult_t nccl_reduce_scatter(Span<const std::byte> data, const std::vector<std::size_t>& parts, Span<std::byte> own,
                                 ncclComm_t comm, cudaStream_t stream);
/// Communicator::broadcast().
ncclResult_t nccl_broadcast(Span<std::byte> data, int root, ncclComm_t comm, cudaStream_t stream);
/// Communicator::all_reduce().
template <typename T>
ncclResult_t nccl_all_reduce(Span<T> data, Reduce how, ncclComm_t comm, cudaStream_t stream) {
  if (comm == nullptr) return ncclSuccess;
  return ncclAllReduce(data.data(), data.data(), data.size(), nccl_type<T>(), nccl_operator(how), comm, stream);
}

}  // namespace shoal::comm
