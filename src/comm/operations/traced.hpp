// SPDX-License-Identifier: Apache-2.0
// Wraps a group so that its operations are counted (comm::traffic()) and traced.
#pragma once

#include <memory>

#include "shoal/comm/communicator.hpp"

namespace shoal::comm {

/// Every operation is a trace event of kind collective, from its start to its completion, with the bytes that this rank
/// sends. For collectives of the library, which do not show what they send, a lower bound is counted. For n bytes of data on
/// D ranks it is n (D-1) / D for all_gather and 2 n (D-1) / D for all_reduce, divided evenly among the other ranks of this
/// node and of other nodes; for broadcast it is n at the root. A group of one rank sends nothing and is not traced.
/// Collectives are numbered in the order in which the group starts them, for reports about hangs.
class Traced : public Communicator {
 public:
  /// group_index: the group's index in the trace's list of groups.
  Traced(std::unique_ptr<Communicator> group, std::int16_t group_index);

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  const std::string& name() const override { return group_->name(); }
  bool same_node(int r) const override { return group_->same_node(r); }
  bool queued() const override { return group_->queued(); }
  int queued_ranks_per_node() const override { return group_->queued_ranks_per_node(); }
  bool gathers_apart() const override { return group_->gathers_apart(); }
  void prepare(device::Queue queue) override { group_->prepare(queue); }

  Request send(Span<const std::byte> data, int to, int tag) override;
  Request receive(Span<std::byte> data, int from, int tag) override;
  Request exchange(const std::vector<Outgoing>& outgoing, const std::vector<Incoming>& incoming, int tag) override;
  Request all_gather(Span<const std::byte> shard, Span<std::byte> all) override;
  Request all_gather_parts(Span<std::byte> all, const std::vector<std::size_t>& parts) override;
  Request reduce_scatter(Span<const std::byte> data, const std::vector<std::size_t>& parts, Span<std::byte> own) override;
  Request broadcast(Span<std::byte> data, int root) override;
  Request barrier() override;
  Request all_reduce(Span<float> data, Reduce how) override;
  Request all_reduce(Span<double> data, Reduce how) override;
  Request all_reduce(Span<std::int64_t> data, Reduce how) override;
  Request all_reduce(Span<std::uint64_t> data, Reduce how) override;

  int next_tag() override { return group_->next_tag(); }
  Communicator& wire() override { return group_->wire(); }
  Request start(std::shared_ptr<Operation> operation, const Traffic& sent) override;

 private:
  /// Whether all ranks of the group start the operation, in one order, so that it has a number there (base/activity.hpp).
  enum class Order { of_group, none };
  template <typename Begin>
  Request counted(std::string_view name, const Traffic& sent, const Begin& begin, Order order = Order::of_group);
  template <typename T>
  Request counted_all_reduce(Span<T> data, Reduce how);
  Traffic split_by_node(std::uint64_t bytes) const;

  std::unique_ptr<Communicator> group_;
  std::int16_t group_index_;
  int node_peers_ = 0;  // other ranks of the group on this node
};

}  // namespace shoal::comm
