// SPDX-License-Identifier: Apache-2.0
#include "shoal/comm/connect.hpp"

#include <algorithm>
#include <memory>

#include "shoal/device/cells.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/device/taken.hpp"

namespace shoal::comm {

namespace {

/// The first messages of operations on a queue.
class FirstMessages final : public Operation {
 public:
  /// bytes: one, and one more for each rank of peers.from.
  FirstMessages(Communicator& group, const Peers& peers, Span<std::byte> bytes, Span<float> number, device::Queue queue)
      : group_(group), peers_(peers), bytes_(bytes), number_(number), queue_(queue) {}
  std::string_view name() const override { return "connect"; }
  std::string describe() const override { return "first messages of " + group_.name(); }
  bool advance() override {
    std::vector<Outgoing> outgoing;
    std::vector<Incoming> incoming;
    for (const int rank : peers_.to) outgoing.push_back({rank, bytes_.first(1)});
    for (std::size_t i = 0; i < peers_.from.size(); ++i) incoming.push_back({peers_.from[i], bytes_.subspan(i + 1, 1)});
    // On a queued group what is enqueued is complete.
    if (!outgoing.empty() || !incoming.empty()) group_.wire().exchange(outgoing, incoming, 0).test();
    if (peers_.collectives) group_.wire().all_reduce(number_, Reduce::max).test();
    return true;
  }

 protected:
  std::optional<device::Queue> queue() const override { return queue_; }
  bool whole_at_start() const override { return true; }

 private:
  Communicator& group_;
  const Peers& peers_;
  Span<std::byte> bytes_;
  Span<float> number_;
  device::Queue queue_;
};

void connect_on(device::Queue queue, Communicator& group, const Peers& peers) {
  group.prepare(queue);
  if (group.size() == 1) return;
  Span<std::byte> bytes;
  Span<float> number;
  const device::DeviceMemory memory([&](Memory& arena) {
    bytes = arena.take<std::byte>(Kind::buffers, peers.from.size() + 1, "first messages");
    number = arena.take<float>(Kind::buffers, 1, "the first collective");
  });
  device::measure_taken("NCCL", [&] {
    Request(std::make_shared<FirstMessages>(group, peers, bytes, number, queue)).wait();
    device::wait_for_queue();
  });
}

void add(std::vector<int>& ranks, const std::vector<int>& more) {
  for (const int rank : more) {
    if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
  }
}

Peers joined(Peers peers, const Peers& more) {
  add(peers.to, more.to);
  add(peers.from, more.from);
  peers.collectives = peers.collectives || more.collectives;
  return peers;
}

}  // namespace

Peers all_peers(const Communicator& group) {
  Peers peers;
  for (int r = 0; r < group.size(); ++r) {
    if (r != group.rank()) peers.to.push_back(r);
  }
  peers.from = peers.to;
  return peers;
}

void connect(Communicator& group, const Connections& connections) {
  if (!group.queued()) return;
  const auto& [gathers, others] = connections;
  if (group.gathers_apart()) {
    if (others) connect_on(device::Queue::reduce, group, *others);
    if (gathers) connect_on(device::Queue::gather, group, *gathers);
  } else if (gathers || others) {
    connect_on(device::Queue::reduce, group, joined(others.value_or(Peers()), gathers.value_or(Peers())));
  }
}

}  // namespace shoal::comm
