// SPDX-License-Identifier: Apache-2.0
#include "shoal/sync/push.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "shoal/base/error.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/kernels/bytes.hpp"
#include "shoal/kernels/outer.hpp"

namespace shoal::sync {

namespace {

constexpr std::size_t piece_elements = std::size_t{1} << 20U;  // per message: 4 MiB, enough for the network's full rate
constexpr std::size_t pieces_in_flight = 2;
constexpr int tag = 0;  // messages between two ranks arrive in the order in which they were sent

/// Messages to one node and from another, on the queue of sums: kernels that the caller enqueues meanwhile run beside them,
/// and the sums that it starts later come after them. The group's exchange is counted and traced.
class Messages final : public comm::Operation {
 public:
  Messages(comm::Communicator& group, std::vector<comm::Outgoing> outgoing, std::vector<comm::Incoming> incoming)
      : group_(group), outgoing_(std::move(outgoing)), incoming_(std::move(incoming)) {}

  std::string_view name() const override { return "send"; }
  std::string describe() const override {
    return text("an exchange of parameters: to node ", outgoing_.front().to, ", from node ", incoming_.front().from);
  }
  bool advance() override {
    if (!std::exchange(posted_, true)) {
      exchange_ = group_.exchange(outgoing_, incoming_, tag);
      return false;
    }
    return exchange_.test();
  }

 protected:
  bool whole_at_start() const override { return group_.queued(); }

 private:
  comm::Communicator& group_;
  std::vector<comm::Outgoing> outgoing_;
  std::vector<comm::Incoming> incoming_;
  bool posted_ = false;
  comm::Request exchange_;
};

}  // namespace

Push::Push(const SubShards& sub_shards, const NodeGroups& groups, bool overlap, Memory& memory)
    : sub_shards_(&sub_shards), groups_(groups), overlap_(overlap) {
  std::size_t largest = 0;
  for (const Range shard : sub_shards.shards()) {
    largest = std::max(largest, shard.size());
    if (!overlap_) continue;
    sent_.push_back(memory.take<float>(Kind::buffers, shard.size(), "parameters that were sent", Use::messages));
    received_.push_back(memory.take<float>(Kind::buffers, shard.size(), "parameters of a neighbour", Use::messages));
  }
  for (std::size_t i = 0; !overlap_ && i < pieces_in_flight; ++i) {
    const std::size_t piece = std::min(largest, piece_elements);
    received_.push_back(memory.take<float>(Kind::buffers, piece, "parameters of a neighbour", Use::messages));
  }
}

void Push::exchange(int hop) {
  const int nodes = groups_.across.ranks, node = groups_.across.rank;
  const int to = (node + hop) % nodes, from = (node - hop + nodes) % nodes;
  if (overlap_) {
    start(to, from);
  } else {
    exchange_piecewise(to, from);
  }
}

/// A piece is averaged after it has been sent and the neighbour's has arrived; the next one is in flight meanwhile.
void Push::exchange_piecewise(int to, int from) {
  struct Piece {
    Span<float> own, other;
    comm::Request messages;
  };
  std::array<Piece, pieces_in_flight> pieces;
  std::size_t count = 0;
  const auto finish_piece = [](Piece& piece) {
    piece.messages.wait();
    kernels::average_with(piece.own.size(), piece.other.data(), piece.own.data());
    piece.own = {};
  };
  comm::Communicator& group = *groups_.across.group;
  for (std::size_t u = 0; u < sub_shards_->units(); ++u) {
    const trace::OnBehalfOf unit(static_cast<int>(u));
    const Range shard = sub_shards_->shards()[u];
    for (std::size_t begin = shard.begin; begin < shard.end; begin += piece_elements, ++count) {
      const std::size_t slot = count % pieces_in_flight;
      finish_piece(pieces[slot]);
      const Span<float> own = sub_shards_->master(u, intersection(shard, {begin, begin + piece_elements}));
      const Span<float> other = received_[slot].first(own.size());
      pieces[slot] = {own, other,
                      comm::Request(std::make_shared<Messages>(group, std::vector<comm::Outgoing>{{to, comm::bytes_of(own)}},
                                                               std::vector<comm::Incoming>{{from, comm::bytes_of(other)}}))};
    }
  }
  for (std::size_t i = 0; i < pieces_in_flight; ++i) finish_piece(pieces[(count + i) % pieces_in_flight]);
}

void Push::start(int to, int from) {
  std::vector<comm::Outgoing> outgoing;
  std::vector<comm::Incoming> incoming;
  for (std::size_t u = 0; u < sub_shards_->units(); ++u) {
    const Span<float> own = sub_shards_->master(u, sub_shards_->shards()[u]);
    kernels::copy_bytes(own.size_bytes(), own.data(), sent_[u].data());
    outgoing.push_back({to, comm::bytes_of(sent_[u])});
    incoming.push_back({from, comm::bytes_of(received_[u])});
  }
  request_ = comm::Request(std::make_shared<Messages>(*groups_.across.group, std::move(outgoing), std::move(incoming)));
  in_flight_ = true;
}

void Push::finish() {
  if (!in_flight_) return;
  request_.wait();
  for (std::size_t u = 0; u < sub_shards_->units(); ++u) {
    const Span<float> own = sub_shards_->master(u, sub_shards_->shards()[u]);
    kernels::average_with_stale(own.size(), received_[u].data(), sent_[u].data(), own.data());
  }
  in_flight_ = false;
}

std::vector<NamedSlice> Push::slices(const std::vector<model::UnitLayout>& units) {
  request_.wait();
  const std::vector<Range>& shards = sub_shards_->shards();
  std::vector<NamedSlice> result = zero::named_slices(units, "/push/sent/", shards, sent_, shards);
  append(result, zero::named_slices(units, "/push/received/", shards, received_, shards));
  return result;
}

}  // namespace shoal::sync
