// SPDX-License-Identifier: Apache-2.0
// A group that says that its operations are enqueued. Each is complete before its call returns, so that tests can compare
// the queued forms of collectives with the host-driven ones where there is no device.
#pragma once

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "shoal/base/error.hpp"
#include "shoal/comm/communicator.hpp"
#include "shoal/comm/wait.hpp"

namespace shoal::comm {

class QueuedWrapper final : public Communicator {
 public:
  /// group must outlive this. ranks_per_node: queued_ranks_per_node().
  explicit QueuedWrapper(Communicator& group, int ranks_per_node = 1) : group_(&group), ranks_per_node_(ranks_per_node) {
    if (&group.wire() != &group) wire_ = std::make_unique<QueuedWrapper>(group.wire(), ranks_per_node);
  }

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  const std::string& name() const override { return group_->name(); }
  bool same_node(int r) const override { return group_->same_node(r); }
  bool queued() const override { return true; }
  int queued_ranks_per_node() const override { return ranks_per_node_; }

  Request send(Span<const std::byte> /*data*/, int /*to*/, int /*tag*/) override { return no_single_messages(); }
  Request receive(Span<std::byte> /*data*/, int /*from*/, int /*tag*/) override { return no_single_messages(); }
  Request exchange(const std::vector<Outgoing>& outgoing, const std::vector<Incoming>& incoming, int tag) override {
    ++exchanges_;
    return finished(group_->exchange(outgoing, incoming, tag));
  }
  Request all_gather(Span<const std::byte> shard, Span<std::byte> all) override {
    return finished(group_->all_gather(shard, all));
  }
  Request all_gather_parts(Span<std::byte> all, const std::vector<std::size_t>& parts) override {
    return finished(group_->all_gather_parts(all, parts));
  }
  Request reduce_scatter(Span<const std::byte> data, const std::vector<std::size_t>& parts, Span<std::byte> own) override {
    return finished(group_->reduce_scatter(data, parts, own));
  }
  Request broadcast(Span<std::byte> data, int root) override { return finished(group_->broadcast(data, root)); }
  Request barrier() override { return finished(group_->barrier()); }
  Request all_reduce(Span<float> data, Reduce how) override { return finished(group_->all_reduce(data, how)); }
  Request all_reduce(Span<double> data, Reduce how) override { return finished(group_->all_reduce(data, how)); }
  Request all_reduce(Span<std::int64_t> data, Reduce how) override { return finished(group_->all_reduce(data, how)); }
  Request all_reduce(Span<std::uint64_t> data, Reduce how) override { return finished(group_->all_reduce(data, how)); }

  int next_tag() override { return group_->next_tag(); }
  Communicator& wire() override { return wire_ == nullptr ? *this : *wire_; }
  Request start(std::shared_ptr<Operation> operation, const Traffic& sent) override {
    return group_->start(std::move(operation), sent);
  }

  /// Number of calls of exchange(), on this group and on its wire().
  int exchanges() const { return exchanges_ + (wire_ == nullptr ? 0 : wire_->exchanges()); }

 private:
  static Request no_single_messages() { fail("a queued group exchanges messages in groups alone"); }
  /// wait() must not be called while an operation is advanced, but test() may be.
  static Request finished(Request request) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point last = Clock::now() + std::chrono::seconds(60);
    for (Backoff backoff; !request.test(); backoff.pause()) {
      require(Clock::now() < last, "an operation of a wrapped group takes longer than 60 s");
    }
    return request;
  }

  Communicator* group_;
  int ranks_per_node_;
  std::unique_ptr<QueuedWrapper> wire_;
  int exchanges_ = 0;
};

}  // namespace shoal::comm
