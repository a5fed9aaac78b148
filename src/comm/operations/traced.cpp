// SPDX-License-Identifier: Apache-2.0
#include "comm/operations/traced.hpp"

#include <map>
#include <string>
#include <utility>

#include "shoal/base/activity.hpp"
#include "shoal/base/trace.hpp"

namespace shoal::comm {

namespace {

using Counters = std::map<std::string, Traffic, std::less<>>;

Counters& counters() {
  static Counters all;
  return all;
}

void count(std::string_view name, const Traffic& sent) {
  const auto found = counters().find(name);
  Traffic& sum = found != counters().end() ? found->second : counters()[std::string(name)];
  sum.intra += sent.intra;
  sum.inter += sent.inter;
}

}  // namespace

std::map<std::string, Traffic> traffic() { return {counters().begin(), counters().end()}; }
void reset_traffic() { counters().clear(); }

Traced::Traced(std::unique_ptr<Communicator> group, std::int16_t group_index)
    : group_(std::move(group)), group_index_(group_index) {
  for (int r = 0; r < group_->size(); ++r) node_peers_ += r != group_->rank() && group_->same_node(r) ? 1 : 0;
}

template <typename Begin>
Request Traced::counted(std::string_view name, const Traffic& sent, const Begin& begin, Order order) {
  if (size() == 1) return begin();
  count(name, sent);
  const std::uint64_t number = order == Order::of_group ? activity::count(group_index_) : 0;
  const bool traces = trace::on(trace::Level::comm);
  const std::int64_t begin_ns = traces ? trace::now_ns() : 0;
  Request request = begin();
  request.label(group_index_, number);
  if (traces) request.trace_as(name, begin_ns, group_index_, sent.total());
  return request;
}

/// Divides bytes that go to all other ranks evenly into those within the node and those to other nodes.
Traffic Traced::split_by_node(std::uint64_t bytes) const {
  if (size() == 1) return {};
  const std::uint64_t intra = bytes * static_cast<std::uint64_t>(node_peers_) / static_cast<std::uint64_t>(size() - 1);
  return {intra, bytes - intra};
}

Request Traced::send(Span<const std::byte> data, int to, int tag) {
  const Traffic sent = same_node(to) ? Traffic{data.size(), 0} : Traffic{0, data.size()};
  return counted(
      "send", sent, [&] { return group_->send(data, to, tag); }, Order::none);
}

Request Traced::receive(Span<std::byte> data, int from, int tag) {
  return counted(
      "receive", {}, [&] { return group_->receive(data, from, tag); }, Order::none);
}

Request Traced::exchange(const std::vector<Outgoing>& outgoing, const std::vector<Incoming>& incoming, int tag) {
  Traffic sent;
  for (const Outgoing& message : outgoing) (same_node(message.to) ? sent.intra : sent.inter) += message.data.size();
  return counted(
      "send", sent, [&] { return group_->exchange(outgoing, incoming, tag); }, Order::none);
}

Request Traced::all_gather(Span<const std::byte> shard, Span<std::byte> all) {
  return counted("all_gather", split_by_node(shard.size() * static_cast<std::size_t>(size() - 1)),
                 [&] { return group_->all_gather(shard, all); });
}

Request Traced::all_gather_parts(Span<std::byte> all, const std::vector<std::size_t>& parts) {
  const std::uint64_t own = parts[static_cast<std::size_t>(rank())];
  return counted("all_gather", split_by_node(own * static_cast<std::uint64_t>(size() - 1)),
                 [&] { return group_->all_gather_parts(all, parts); });
}

Request Traced::reduce_scatter(Span<const std::byte> data, const std::vector<std::size_t>& parts, Span<std::byte> own) {
  return counted("reduce_scatter", split_by_node(data.size() - own.size()),
                 [&] { return group_->reduce_scatter(data, parts, own); });
}

Request Traced::broadcast(Span<std::byte> data, int root) {
  const std::uint64_t sent = rank() == root ? data.size() : 0;
  return counted("broadcast", split_by_node(sent), [&] { return group_->broadcast(data, root); });
}

Request Traced::barrier() {
  return counted("barrier", {}, [&] { return group_->barrier(); });
}

template <typename T>
Request Traced::counted_all_reduce(Span<T> data, Reduce how) {
  const auto ranks = static_cast<std::uint64_t>(size());
  return counted("all_reduce", split_by_node(2 * data.size_bytes() * (ranks - 1) / ranks),
                 [&] { return group_->all_reduce(data, how); });
}

Request Traced::all_reduce(Span<float> data, Reduce how) { return counted_all_reduce(data, how); }
Request Traced::all_reduce(Span<double> data, Reduce how) { return counted_all_reduce(data, how); }
Request Traced::all_reduce(Span<std::int64_t> data, Reduce how) { return counted_all_reduce(data, how); }
Request Traced::all_reduce(Span<std::uint64_t> data, Reduce how) { return counted_all_reduce(data, how); }

Request Traced::start(std::shared_ptr<Operation> operation, const Traffic& sent) {
  const std::string name(operation->name());
  return counted(name, sent, [&] { return Request(std::move(operation)); });
}

}  // namespace shoal::comm
