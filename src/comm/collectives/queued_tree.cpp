// SPDX-License-Identifier: Apache-2.0
#include "comm/collectives/queued_tree.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include "comm/operations/messages.hpp"
#include "shoal/base/error.hpp"
#include "shoal/comm/connect.hpp"
#include "shoal/comm/queued_exchanges.hpp"
#include "shoal/kernels/tree_sum.hpp"

namespace shoal::comm {

namespace {

using Range = std::pair<std::size_t, std::size_t>;  // first byte, one past the last

/// The parts of the spans that lie in a range of all their bytes, one span after another.
Block part_of(const Block& spans, Range range) {
  Block parts;
  std::size_t before = 0;
  for (const Span<std::byte> span : spans) {
    const std::size_t begin = std::max(range.first, before), end = std::min(range.second, before + span.size());
    if (begin < end) parts.push_back(span.subspan(begin - before, end - begin));
    before += span.size();
  }
  return parts;
}

/// Ranks that exchange with each other directly. Rank peers[i] ends with what[i], of which each of them has terms.
struct Members {
  std::vector<int> peers;  // ascending, with this rank
  std::size_t own = 0;     // its index
  std::vector<Block> what;
};

/// The ranks of this rank's part of a node, and the blocks with each one's place.
Members within_node(const Communicator& group, const Blocks& blocks) {
  const auto size = static_cast<std::size_t>(group.size()), rank = static_cast<std::size_t>(group.rank());
  const auto on_node = static_cast<std::size_t>(group.queued_ranks_per_node());
  Members members;
  members.own = rank % on_node;
  for (std::size_t place = 0; place < on_node; ++place) {
    members.peers.push_back(static_cast<int>(rank - members.own + place));
    Block spans;
    for (std::size_t b = place; b < size; b += on_node) spans.insert(spans.end(), blocks[b].begin(), blocks[b].end());
    members.what.push_back(std::move(spans));
  }
  return members;
}

/// The ranks with this rank's place, and the block of each.
Members across_nodes(const Communicator& group, const Blocks& blocks) {
  const auto size = static_cast<std::size_t>(group.size()), rank = static_cast<std::size_t>(group.rank());
  const auto on_node = static_cast<std::size_t>(group.queued_ranks_per_node());
  Members members;
  members.own = rank / on_node;
  for (std::size_t b = rank % on_node; b < size; b += on_node) {
    members.peers.push_back(static_cast<int>(b));
    members.what.push_back(blocks[b]);
  }
  return members;
}

/// Each advance() enqueues one exchange and the kernels that follow it.
class QueuedTree : public Operation {
 public:
  explicit QueuedTree(Communicator& group) : group_(group), tag_(group.next_tag()) {}
  std::string describe() const override { return text("tree of exchanges, ", name(), " of ", group_.name()); }
  bool whole_at_start() const override { return true; }

 protected:
  void exchange(const std::vector<Outgoing>& outgoing, const std::vector<Incoming>& incoming) {
    Request messages = group_.wire().exchange(outgoing, incoming, tag_);
    require(messages.test(), describe(), ": an exchange of a queued group was not enqueued");
  }

 private:
  Communicator& group_;
  int tag_;
};

class QueuedReduceScatter final : public QueuedTree {
 public:
  QueuedReduceScatter(Communicator& group, const Blocks& blocks, DType type, Span<std::byte> scratch)
      : QueuedTree(group), type_(type), scratch_(scratch) {
    for (Members members : {within_node(group, blocks), across_nodes(group, blocks)}) add_rounds(std::move(members));
  }
  std::string_view name() const override { return "reduce_scatter"; }
  bool advance() override {
    if (!rounds_.empty()) {
      exchange_and_sum(rounds_.front());
      rounds_.pop_front();
    }
    return rounds_.empty();
  }

 private:
  struct Round {
    std::shared_ptr<const Members> members;
    Range range;         // of the bytes of each member
    std::size_t stride;  // between the terms in the scratch memory
  };

  /// Largest pieces whose terms from all other members fit into the scratch memory. All ranks have as many rounds as the
  /// largest member needs, since each round is a call that all of them make.
  void add_rounds(Members members) {
    if (members.peers.size() == 1) return;
    const std::size_t stride = scratch_.size() / (members.peers.size() - 1) / cache_line * cache_line;
    require(stride > 0, "scratch memory of ", scratch_.size(), " bytes for terms of ", members.peers.size(), " ranks");
    std::size_t largest = 0;
    for (const Block& spans : members.what) largest = std::max(largest, size_in_bytes(spans));
    const auto shared = std::make_shared<const Members>(std::move(members));
    for (std::size_t begin = 0; begin < largest; begin += stride)
      rounds_.push_back({shared, {begin, begin + stride}, stride});
  }

  void exchange_and_sum(const Round& round) {
    const Members& members = *round.members;
    const Block own = part_of(members.what[members.own], round.range);
    const auto slot = [&](std::size_t peer) {
      return scratch_.subspan((peer < members.own ? peer : peer - 1) * round.stride, round.stride);
    };
    std::vector<Outgoing> outgoing;
    std::vector<Incoming> incoming;
    for (const std::size_t peer : partners_in_order(members.own, members.peers.size())) {
      for (const Span<std::byte> span : part_of(members.what[peer], round.range)) {
        outgoing.push_back({members.peers[peer], span});
      }
      std::size_t before = 0;
      for (const Span<std::byte> span : own) {  // its spans have these sizes on all ranks
        incoming.push_back({members.peers[peer], slot(peer).subspan(before, span.size())});
        before += span.size();
      }
    }
    exchange(outgoing, incoming);
    std::size_t before = 0;
    for (const Span<std::byte> span : own) {
      std::vector<std::byte*> terms;
      for (std::size_t peer = 0; peer < members.peers.size(); ++peer) {
        terms.push_back(peer == members.own ? span.data() : slot(peer).data() + before);
      }
      add_terms(std::move(terms), members.own, span.size());
      before += span.size();
    }
  }

  /// Overwrites term `own`, which lies in the block itself, with the sum of all. If there are more terms than one pass adds,
  /// it first adds subtrees of as many: the tree is the same.
  void add_terms(std::vector<std::byte*> terms, std::size_t own, std::size_t bytes) const {
    while (terms.size() > 1) {
      std::vector<std::byte*> sums;
      for (std::size_t first = 0; first < terms.size(); first += kernels::TreeTerms::most) {
        kernels::TreeTerms some;
        some.count = std::min(kernels::TreeTerms::most, terms.size() - first);
        std::copy_n(terms.begin() + static_cast<std::ptrdiff_t>(first), some.count, some.at);
        const bool with_own = first <= own && own < first + some.count;
        sums.push_back(terms[with_own ? own : first]);
        if (some.count > 1) kernels::tree_sum(type_, bytes / size_of(type_), some, sums.back());
      }
      terms = std::move(sums);
      own /= kernels::TreeTerms::most;
    }
  }

  DType type_;
  Span<std::byte> scratch_;
  std::deque<Round> rounds_;
};

class QueuedAllGather final : public QueuedTree {
 public:
  QueuedAllGather(Communicator& group, const Blocks& blocks) : QueuedTree(group) {
    for (Members members : {across_nodes(group, blocks), within_node(group, blocks)}) {
      if (members.peers.size() > 1) steps_.push_back(std::move(members));
    }
  }
  std::string_view name() const override { return "all_gather"; }
  bool advance() override {
    if (!steps_.empty()) {
      gather(steps_.front());
      steps_.pop_front();
    }
    return steps_.empty();
  }

 protected:
  std::optional<device::Queue> queue() const override { return device::Queue::gather; }

 private:
  void gather(const Members& members) {
    std::vector<Outgoing> outgoing;
    std::vector<Incoming> incoming;
    for (const std::size_t peer : partners_in_order(members.own, members.peers.size())) {
      for (const Span<std::byte> span : members.what[members.own]) outgoing.push_back({members.peers[peer], span});
      for (const Span<std::byte> span : members.what[peer]) incoming.push_back({members.peers[peer], span});
    }
    exchange(outgoing, incoming);
  }

  std::deque<Members> steps_;
};

}  // namespace

std::shared_ptr<Operation> queued_tree_reduce_scatter(Communicator& group, const Blocks& blocks, DType type,
                                                      Span<std::byte> scratch) {
  return std::make_shared<QueuedReduceScatter>(group, blocks, type, scratch);
}

std::shared_ptr<Operation> queued_tree_all_gather(Communicator& group, const Blocks& blocks) {
  return std::make_shared<QueuedAllGather>(group, blocks);
}

Peers tree_peers(const Communicator& group) {
  const Blocks blocks(static_cast<std::size_t>(group.size()));
  Peers peers;
  for (const Members& members : {within_node(group, blocks), across_nodes(group, blocks)}) {
    for (std::size_t peer = 0; peer < members.peers.size(); ++peer) {
      if (peer != members.own) peers.to.push_back(members.peers[peer]);
    }
  }
  peers.from = peers.to;
  return peers;
}

int queued_tree_exchanges(int group_size, int ranks_per_node) {
  return (ranks_per_node > 1 ? 1 : 0) + (ranks_per_node < group_size ? 1 : 0);
}

Traffic queued_tree_traffic(const Communicator& group, TreeDirection direction,
                            const std::vector<std::size_t>& block_bytes) {
  Blocks sizes;  // spans that nobody reads
  for (const std::size_t bytes : block_bytes) sizes.push_back({Span<std::byte>(static_cast<std::byte*>(nullptr), bytes)});
  Traffic sent;
  for (const Members& members : {within_node(group, sizes), across_nodes(group, sizes)}) {
    for (std::size_t peer = 0; peer < members.peers.size(); ++peer) {
      if (peer == members.own) continue;
      const std::size_t sent_there = direction == TreeDirection::reduce_scatter ? peer : members.own;
      const std::size_t bytes = size_in_bytes(members.what[sent_there]);
      (group.same_node(members.peers[peer]) ? sent.intra : sent.inter) += bytes;
    }
  }
  return sent;
}

}  // namespace shoal::comm
