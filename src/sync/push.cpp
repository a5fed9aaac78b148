// SPDX-License-Identifier: Apache-2.0
#include "shoal/sync/push.hpp"

#include <algorithm>
#include <array>

#include "shoal/base/trace.hpp"
#include "shoal/kernels/bytes.hpp"
#include "shoal/kernels/outer.hpp"

namespace shoal::sync {

namespace {

constexpr std::size_t piece_elements = std::size_t{1} << 20U;  // per message: 4 MiB, enough for the network's full rate
constexpr std::size_t pieces_in_flight = 2;
constexpr int tag = 0;  // messages between two ranks arrive in the order in which they were sent

}  // namespace

Push::Push(const SubShards& sub_shards, const NodeGroups& groups, bool overlap, Memory& memory)
    : sub_shards_(&sub_shards), groups_(groups), overlap_(overlap) {
  std::size_t largest = 0;
  for (const Range shard : sub_shards.shards()) {
    largest = std::max(largest, shard.size());
    if (!overlap_) continue;
    sent_.push_back(memory.take<float>(Kind::buffers, shard.size(), "parameters that were sent"));
    received_.push_back(memory.take<float>(Kind::buffers, shard.size(), "parameters of a neighbour"));
  }
  for (std::size_t i = 0; !overlap_ && i < pieces_in_flight; ++i) {
    const std::size_t piece = std::min(largest, piece_elements);
    received_.push_back(memory.take<float>(Kind::buffers, piece, "parameters of a neighbour"));
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

/// A piece is averaged when it has been sent and the neighbour's has arrived; the next one is in flight meanwhile.
void Push::exchange_piecewise(int to, int from) {
  struct Piece {
    Span<float> own, other;
    comm::Request sending, receiving;
  };
  std::array<Piece, pieces_in_flight> pieces;
  std::size_t count = 0;
  const auto finish_piece = [](Piece& piece) {
    piece.sending.wait();
    piece.receiving.wait();
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
      pieces[slot] = {own, other, group.send(comm::const_bytes_of(Span<const float>(own)), to, tag),
                      group.receive(comm::bytes_of(other), from, tag)};
    }
  }
  for (std::size_t i = 0; i < pieces_in_flight; ++i) finish_piece(pieces[(count + i) % pieces_in_flight]);
}

void Push::start(int to, int from) {
  comm::Communicator& group = *groups_.across.group;
  // All copies come before the first message: kernels let messages advance, and a message that advances before the others
  // are posted holds up those of the other direction ([Note: clear-to-send before data]).
  for (std::size_t u = 0; u < sub_shards_->units(); ++u) {
    const Span<float> own = sub_shards_->master(u, sub_shards_->shards()[u]);
    kernels::copy_bytes(own.size_bytes(), own.data(), sent_[u].data());
  }
  for (std::size_t u = 0; u < sub_shards_->units(); ++u) {
    const trace::OnBehalfOf unit(static_cast<int>(u));
    requests_.push_back(group.receive(comm::bytes_of(received_[u]), from, tag));
    requests_.push_back(group.send(comm::const_bytes_of(Span<const float>(sent_[u])), to, tag));
  }
  in_flight_ = true;
}

void Push::finish() {
  if (!in_flight_) return;
  for (comm::Request& request : requests_) request.wait();
  requests_.clear();
  for (std::size_t u = 0; u < sub_shards_->units(); ++u) {
    const Span<float> own = sub_shards_->master(u, sub_shards_->shards()[u]);
    kernels::average_with_stale(own.size(), received_[u].data(), sent_[u].data(), own.data());
  }
  in_flight_ = false;
}

std::vector<NamedSlice> Push::slices(const std::vector<model::UnitLayout>& units) {
  for (comm::Request& request : requests_) request.wait();
  requests_.clear();
  const std::vector<Range>& shards = sub_shards_->shards();
  std::vector<NamedSlice> result = zero::named_slices(units, "/push/sent/", shards, sent_, shards);
  append(result, zero::named_slices(units, "/push/received/", shards, received_, shards));
  return result;
}

}  // namespace shoal::sync
