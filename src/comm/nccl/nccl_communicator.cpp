// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/nccl_communicator.hpp"

#include <utility>

#include "comm/nccl/nccl_functions.hpp"
#include "comm/operations/open_operations.hpp"
#include "shoal/base/error.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/device/timing.hpp"

namespace shoal::comm {

using device::Queue;

namespace {

constexpr const char* no_single_messages =
    "single messages between arenas may wait for each other: exchange() sends them together";

}  // namespace

NcclCommunicator::NcclCommunicator(std::unique_ptr<Communicator> control, NcclShared& shared,
                                   const std::vector<int>& part_of, int ranks_per_node)
    : control_(std::move(control)),
      shared_(shared),
      group_(shared.handles.add(Origin::calls, control_->name(), part_of)),
      gathers_(shared.gathers_apart ? shared.handles.add(Origin::gathers, control_->name(), part_of) : group_),
      ranks_per_node_(ranks_per_node) {}

Request NcclCommunicator::send(Span<const std::byte> data, int to, int tag) {
  require(!on_device({data}), no_single_messages);
  return control_->send(data, to, tag);
}

Request NcclCommunicator::receive(Span<std::byte> data, int from, int tag) {
  require(!on_device({data}), no_single_messages);
  return control_->receive(data, from, tag);
}

Request NcclCommunicator::exchange(const std::vector<Outgoing>& outgoing, const std::vector<Incoming>& incoming, int tag) {
  std::vector<Span<const std::byte>> memory;
  memory.reserve(outgoing.size() + incoming.size());
  for (const Outgoing& message : outgoing) memory.push_back(message.data);
  for (const Incoming& message : incoming) memory.emplace_back(message.data);
  if (!on_device(memory)) return control_->exchange(outgoing, incoming, tag);
  std::size_t bytes = 0;
  for (const Outgoing& message : outgoing) bytes += message.data.size();
  return enqueue("exchange", Queue::reduce, bytes,
                 [=](ncclComm_t comm, cudaStream_t stream) { return nccl_exchange(outgoing, incoming, comm, stream); });
}

Request NcclCommunicator::all_gather(Span<const std::byte> shard, Span<std::byte> all) {
  if (!on_device({shard, all})) return control_->all_gather(shard, all);
  const auto ranks = static_cast<std::size_t>(size());
  require(all.size() == shard.size() * ranks, "all_gather of ", name(), ": ", ranks, " shards of ", shard.size(),
          " bytes into ", all.size());
  return enqueue("all_gather", Queue::gather, shard.size(),
                 [=](ncclComm_t comm, cudaStream_t stream) { return nccl_all_gather(shard, all, comm, stream); });
}

Request NcclCommunicator::all_gather_parts(Span<std::byte> all, const std::vector<std::size_t>& parts) {
  if (!on_device({all})) return control_->all_gather_parts(all, parts);
  check_parts(parts, all.size());
  const auto own = static_cast<std::size_t>(rank());
  std::vector<Span<std::byte>> part_of_rank;
  for (std::size_t r = 0, begin = 0; r < parts.size(); begin += parts[r++]) {
    part_of_rank.push_back(all.subspan(begin, parts[r]));
  }
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  for (std::size_t r = 0; r < parts.size(); ++r) {
    if (r == own) continue;
    outgoing.push_back({static_cast<int>(r), part_of_rank[own]});
    incoming.push_back({static_cast<int>(r), part_of_rank[r]});
  }
  return enqueue("all_gather", Queue::gather, all.size(),
                 [=](ncclComm_t comm, cudaStream_t stream) { return nccl_exchange(outgoing, incoming, comm, stream); });
}

Request NcclCommunicator::reduce_scatter(Span<const std::byte> data, const std::vector<std::size_t>& parts,
                                         Span<std::byte> own) {
  if (!on_device({data, own})) return control_->reduce_scatter(data, parts, own);
  check_parts(parts, data.size());
  require(own.size() == parts[static_cast<std::size_t>(rank())], "reduce_scatter of ", name(), ": a part of ", own.size(),
          " bytes");
  return enqueue("reduce_scatter", Queue::reduce, data.size(),
                 [=](ncclComm_t comm, cudaStream_t stream) { return nccl_reduce_scatter(data, parts, own, comm, stream); });
}

Request NcclCommunicator::broadcast(Span<std::byte> data, int root) {
  if (!on_device({data})) return control_->broadcast(data, root);
  return enqueue("broadcast", Queue::gather, data.size(),
                 [=](ncclComm_t comm, cudaStream_t stream) { return nccl_broadcast(data, root, comm, stream); });
}

template <typename T>
Request NcclCommunicator::reduce(Span<T> data, Reduce how) {
  if (!on_device({bytes_of(data)})) return control_->all_reduce(data, how);
  return enqueue("all_reduce", Queue::reduce, data.size_bytes(),
                 [=](ncclComm_t comm, cudaStream_t stream) { return nccl_all_reduce(data, how, comm, stream); });
}
template Request NcclCommunicator::reduce(Span<float>, Reduce);
template Request NcclCommunicator::reduce(Span<double>, Reduce);
template Request NcclCommunicator::reduce(Span<std::int64_t>, Reduce);
template Request NcclCommunicator::reduce(Span<std::uint64_t>, Reduce);

/// True if the memory is in arenas, false if it is the host's. Empty memory is of either kind.
bool NcclCommunicator::on_device(const std::vector<Span<const std::byte>>& memory) const {
  std::size_t held = 0, others = 0;
  for (const Span<const std::byte> span : memory) {
    if (!span.empty()) ++(device::holds(span.data()) ? held : others);
  }
  require(held == 0 || others == 0, "an operation of ", name(), " on memory of the device and of the host");
  return held > 0;
}

void NcclCommunicator::check_parts(const std::vector<std::size_t>& parts, std::size_t bytes) const {
  std::size_t sum = 0;
  for (const std::size_t part : parts) sum += part;
  require(parts.size() == static_cast<std::size_t>(size()) && sum == bytes, parts.size(), " parts of ", sum,
          " bytes together for the ", size(), " ranks of ", name(), " and ", bytes, " bytes");
}

/// Within a step of another operation, the call goes to the queue of that one, whose words come first in messages.
Request NcclCommunicator::enqueue(const char* operation, Queue queue, std::size_t bytes, Call call) {
  const std::string call_itself = text(operation, " #", ++started_, " of ", name(), ", ", bytes, " bytes");
  const Operation* const outer = OpenOperations::stepping();
  const std::string what = outer != nullptr ? text(outer->describe(), " (", call_itself, ")") : call_itself;
  NcclGroup& group = group_on(OpenOperations::queue_of_step().value_or(queue));
  const auto enqueue = [this, &group, operation, call = std::move(call), what] { run(group, operation, call, what); };
  const auto started = std::make_shared<NcclOperation>(operation, what, queue, enqueue);
  if (!OpenOperations::busy()) return Request(started);
  started->advance();
  return {};
}

void NcclCommunicator::run(NcclGroup& group, const char* operation, const Call& call, const std::string& what) {
  auto* const stream = static_cast<cudaStream_t>(device::stream());
  if (group.alone) {
    call(nullptr, stream);
    return;
  }
  ncclComm_t const comm = shared_.handles.of(group);
  require(comm != nullptr, what, ": NCCL has failed before");
  const auto described = std::make_shared<NcclOperation>("", what, Queue::compute, nullptr);
  shared_.calls.start(described, group, [&] {
    const device::Timed timed(operation, device::Work::collective);
    shared_.handles.settle(call(comm, stream), comm, what);
  });
}

}  // namespace shoal::comm
