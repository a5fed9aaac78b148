// SPDX-License-Identifier: Apache-2.0
#include "shoal/comm/tree_reduce.hpp"

#include <algorithm>
#include <bit>
#include <deque>
#include <limits>
#include <optional>
#include <utility>

#include "comm/collectives/queued_tree.hpp"
#include "comm/collectives/tree_stages.hpp"
#include "comm/operations/messages.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/names.hpp"

namespace shoal::comm {

namespace {

/// A rank's position in the tree.
struct TreePosition {
  TreePosition(int group_rank, int group_size)
      : rank(group_rank), bits(std::countr_zero(static_cast<unsigned>(group_size))), direct_ranks(group_size >> bits) {}
  int stride() const { return 1 << bits; }
  /// This rank's index among the ranks of the direct exchange, and the rank at an index.
  std::size_t own_index() const { return static_cast<std::size_t>(rank >> bits); }
  int rank_at(int index) const { return rank % stride() + index * stride(); }

  int rank;
  int bits;          // number of pairwise exchanges: one for each of the rank's lowest bits
  int direct_ranks;  // odd number of ranks that agree in these bits and exchange directly
};

constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();

std::size_t slot_bytes(std::size_t bytes) { return std::min(round_up(bytes, cache_line), largest_message_bytes); }

/// Receive memory for an operation on `bytes` bytes. A rank receives half of them in one exchange, or, in a direct exchange,
/// at least one cache line from each peer: in a queued group all others may be peers. Grows with `bytes`, so that memory
/// planned for the largest operation serves all smaller ones.
std::size_t receive_bytes(int ranks, std::size_t bytes) {
  const std::size_t half = bytes / 2 / largest_message_bytes + 1;
  const std::size_t slots = std::clamp(half, fewest_slots_to_receive, most_slots_to_receive);
  return std::max(slots * slot_bytes(bytes), static_cast<std::size_t>(ranks) * cache_line);
}

/// The spans of all blocks whose index agrees with `rank` in the lowest `bits` bits.
Block spans_of_matching_blocks(const Blocks& blocks, int rank, int bits) {
  Block spans;
  const std::size_t stride = std::size_t{1} << static_cast<unsigned>(bits);
  for (std::size_t b = static_cast<std::size_t>(rank) % stride; b < blocks.size(); b += stride) {
    spans.insert(spans.end(), blocks[b].begin(), blocks[b].end());
  }
  return spans;
}

/// Divides the messages of an exchange into batches that fit into `room` bytes of receive memory.
///
/// [Note: both directions at once] The receives of a batch are posted together, so all of its clear-to-send messages leave
/// before any data ([Note: clear-to-send before data]). Posting a receive whenever an arrived message frees memory would
/// queue its clear-to-send behind the data that this rank is sending. The partner would then have nothing to send but
/// clear-to-sends of its own, which would leave at once, and the two directions of the link would end up in use
/// alternately. So a batch starts only when nothing of the batch before it is in flight, in either direction.
std::vector<std::vector<Message>> in_batches(std::vector<Message> messages, std::size_t room) {
  std::vector<std::vector<Message>> batches;
  std::size_t left = 0;
  for (Message& message : messages) {
    const std::size_t length = round_up(message.bytes, cache_line);
    if (batches.empty() || length > left) {
      batches.emplace_back();
      left = room;
    }
    left -= length;
    batches.back().push_back(std::move(message));
  }
  return batches;
}

/// When a batch is over: all but the last also wait until everything is sent ([Note: both directions at once]).
NextStage next_stage_after(bool last_batch) { return last_batch ? NextStage::when_received : NextStage::when_also_sent; }

/// sum_as: the element type of a reduce-scatter; none for an all-gather, which makes the same exchanges in the opposite
/// order.
class TreeOperation : public Operation {
 public:
  TreeOperation(Communicator& group, std::optional<DType> sum_as, Blocks blocks, Span<std::byte> scratch)
      : sum_as_(sum_as),
        blocks_(std::move(blocks)),
        position_(group.rank(), group.size()),
        tree_(tree_wire(group, size_in_bytes(blocks_), scratch)),
        name_of_group_(group.name()) {
    if (sum_as_) {
      for (int bit = 0; bit < position_.bits; ++bit) add_pairwise_exchange(group, bit);
      if (position_.direct_ranks > 1) add_direct_exchange(group);
    } else {
      if (position_.direct_ranks > 1) add_direct_exchange(group);
      for (int bit = position_.bits; bit-- > 0;) add_pairwise_exchange(group, bit);
    }
  }

  bool advance() override {
    std::erase_if(sending_, [](const auto& stage) { return stage->continue_sending(); });
    while (!stages_.empty() && stages_.front()->advance()) {
      sending_.push_back(std::move(stages_.front()));
      stages_.pop_front();
    }
    return stages_.empty() &&
           std::all_of(sending_.begin(), sending_.end(), [](const auto& stage) { return stage->continue_sending(); });
  }
  std::string_view name() const override { return sum_as_ ? "reduce_scatter" : "all_gather"; }
  std::string describe() const override {
    return text("tree ", name(), " of ", name_of_group_, " (tag ", tree_.tag, "), ", size_in_bytes(blocks_), " bytes");
  }

 protected:
  std::optional<device::Queue> queue() const override { return sum_as_ ? device::Queue::reduce : device::Queue::gather; }

 private:
  static TreeWire tree_wire(Communicator& group, std::size_t bytes, Span<std::byte> scratch) {
    const Span<std::byte> send_memory = scratch.first(slots_to_send * slot_bytes(bytes));
    const Span<std::byte> receive_memory = scratch.subspan(send_memory.size(), receive_bytes(group.size(), bytes));
    return {group.wire(), group.next_tag(), send_memory, receive_memory};
  }

  /// Exchange with the rank whose number differs in this bit alone.
  void add_pairwise_exchange(const Communicator& group, int bit) {
    const int partner = position_.rank ^ (1 << bit);
    const Block mine = spans_of_matching_blocks(blocks_, position_.rank, bit + 1);
    const Block theirs = spans_of_matching_blocks(blocks_, partner, bit + 1);
    const std::size_t room = group.same_node(partner) ? no_limit : tree_.receive_memory.size();
    auto outgoing = in_batches(cut_into_messages(sum_as_ ? theirs : mine), room);
    auto incoming = in_batches(cut_into_messages(sum_as_ ? mine : theirs), room);
    const std::size_t batches = std::max(outgoing.size(), incoming.size());
    outgoing.resize(batches);
    incoming.resize(batches);
    for (std::size_t batch = 0; batch < batches; ++batch) {
      auto exchange = std::make_unique<ExchangeStage>(tree_, sum_as_, next_stage_after(batch + 1 == batches));
      for (Message& message : outgoing[batch]) exchange->send(partner, std::move(message));
      for (Message& message : incoming[batch]) exchange->receive(partner, std::move(message));
      stages_.push_back(std::move(exchange));
    }
  }

  /// Exchange among all ranks that agree in the low bits. The receive memory is divided evenly among these ranks, and limits
  /// the number of messages from each of them in a batch.
  void add_direct_exchange(const Communicator& group) {
    const auto ranks = static_cast<std::size_t>(position_.direct_ranks);
    const std::size_t own_index = position_.own_index();
    const std::size_t bytes_per_peer = tree_.receive_memory.size() / ranks / cache_line * cache_line;
    const std::size_t largest = std::min(bytes_per_peer, slot_bytes(size_in_bytes(blocks_)));
    std::vector<int> peers;
    std::vector<std::vector<Message>> by_peer;
    std::size_t most = 0;
    bool across = false;
    for (int index = 0; index < position_.direct_ranks; ++index) {
      peers.push_back(position_.rank_at(index));
      by_peer.push_back(cut_into_messages(block(peers.back()), largest));
      most = std::max(most, by_peer.back().size());
      across |= !group.same_node(peers.back());
    }
    const std::size_t per_batch = sum_as_ || across ? bytes_per_peer / largest : std::max(most, std::size_t{1});
    for (std::size_t begin = 0; begin < most; begin += per_batch) {
      std::vector<std::vector<Message>> batch;
      for (const auto& messages : by_peer) {
        const auto at = [&](std::size_t m) {
          return messages.begin() + static_cast<std::ptrdiff_t>(std::min(m, messages.size()));
        };
        batch.emplace_back(at(begin), at(begin + per_batch));
      }
      const NextStage next = next_stage_after(begin + per_batch >= most);
      stages_.push_back(sum_as_ ? direct_reduce_stage(peers, own_index, batch, next)
                                : direct_gather_stage(peers, own_index, batch, next));
    }
  }

  /// by_peer: the messages of each peer's block.
  std::unique_ptr<TreeStage> direct_reduce_stage(const std::vector<int>& peers, std::size_t own_index,
                                                 const std::vector<std::vector<Message>>& by_peer, NextStage next) {
    auto reduce = std::make_unique<DirectReduceStage>(tree_, *sum_as_, peers, own_index, by_peer[own_index], next);
    for_each_message(own_index, by_peer, [&](std::size_t to, const Message& m) { reduce->send(peers[to], m); });
    return reduce;
  }

  std::unique_ptr<TreeStage> direct_gather_stage(const std::vector<int>& peers, std::size_t own_index,
                                                 const std::vector<std::vector<Message>>& by_peer, NextStage next) {
    auto exchange = std::make_unique<ExchangeStage>(tree_, sum_as_, next);
    const std::vector<std::vector<Message>> mine(by_peer.size(), by_peer[own_index]);
    for_each_message(own_index, mine, [&](std::size_t to, const Message& m) { exchange->send(peers[to], m); });
    for_each_message(own_index, by_peer, [&](std::size_t from, const Message& m) { exchange->receive(peers[from], m); });
    return exchange;
  }

  const Block& block(int rank) const { return blocks_[static_cast<std::size_t>(rank)]; }

  std::optional<DType> sum_as_;
  Blocks blocks_;
  TreePosition position_;
  TreeWire tree_;
  std::deque<std::unique_ptr<TreeStage>> stages_;    // the first one is in progress
  std::vector<std::unique_ptr<TreeStage>> sending_;  // earlier ones that still have messages to send
  const std::string& name_of_group_;                 // of the communicator, which outlives its operations
};

Request start_tree(Communicator& group, std::optional<DType> sum_as, Blocks blocks, Span<std::byte> scratch) {
  const int size = group.size();
  require(blocks.size() == static_cast<std::size_t>(size), "a tree over ", size, " ranks got ", blocks.size(), " blocks");
  const std::size_t bytes = size_in_bytes(blocks);
  if (size == 1 || bytes == 0) return {};
  const std::size_t needed = tree_scratch_bytes(size, bytes);
  require(scratch.size() >= needed, "a tree over ", size, " ranks and ", bytes, " bytes needs scratch of ", needed,
          " bytes, got ", scratch.size());
  std::vector<std::size_t> block_bytes;
  for (const Block& block : blocks) block_bytes.push_back(size_in_bytes(block));
  const TreeDirection direction = sum_as ? TreeDirection::reduce_scatter : TreeDirection::all_gather;
  if (group.queued()) {
    return group.start(
        sum_as ? queued_tree_reduce_scatter(group, blocks, *sum_as, scratch) : queued_tree_all_gather(group, blocks),
        queued_tree_traffic(group, direction, block_bytes));
  }
  const Traffic sent = tree_traffic(group.rank(), direction, block_bytes, [&](int rank) { return group.same_node(rank); });
  return group.start(std::make_shared<TreeOperation>(group, sum_as, std::move(blocks), scratch), sent);
}

}  // namespace

Request tree_reduce_scatter(Communicator& group, Blocks blocks, DType type, Span<std::byte> scratch) {
  for (const auto& block : blocks) {
    for (const Span<std::byte> span : block) {
      require(span.size() % size_of(type) == 0, "a span of ", span.size(), " bytes does not consist of whole elements of ",
              name_of(type));
    }
  }
  return start_tree(group, type, std::move(blocks), scratch);
}

Request tree_all_gather(Communicator& group, Blocks blocks, Span<std::byte> scratch) {
  return start_tree(group, {}, std::move(blocks), scratch);
}

std::size_t tree_scratch_bytes(int group_size, std::size_t bytes) {
  if (group_size == 1 || bytes == 0) return 0;
  return slots_to_send * slot_bytes(bytes) + receive_bytes(group_size, bytes);
}

Traffic tree_traffic(int rank, TreeDirection direction, const std::vector<std::size_t>& block_bytes,
                     const std::function<bool(int rank)>& same_node) {
  Traffic traffic;
  for (const PlannedExchange& exchange : tree_plan(rank, direction, block_bytes)) {
    for (const PartnerBytes& with : exchange) (same_node(with.partner) ? traffic.intra : traffic.inter) += with.sent;
  }
  return traffic;
}

std::vector<PlannedExchange> tree_plan(int rank, TreeDirection direction, const std::vector<std::size_t>& block_bytes) {
  const TreePosition position(rank, static_cast<int>(block_bytes.size()));
  const bool reduces = direction == TreeDirection::reduce_scatter;
  /// Bytes of all blocks whose index agrees with `like` in the lowest `bits` bits.
  const auto matching = [&](int like, int bits) {
    const std::size_t stride = std::size_t{1} << static_cast<unsigned>(bits);
    std::size_t bytes = 0;
    for (std::size_t b = static_cast<std::size_t>(like) % stride; b < block_bytes.size(); b += stride)
      bytes += block_bytes[b];
    return bytes;
  };
  std::vector<PlannedExchange> exchanges;
  if (position.direct_ranks > 1) {
    PlannedExchange& direct = exchanges.emplace_back();
    const std::size_t own = block_bytes[static_cast<std::size_t>(rank)];
    for (const std::size_t index :
         partners_in_order(position.own_index(), static_cast<std::size_t>(position.direct_ranks))) {
      const int partner = position.rank_at(static_cast<int>(index));
      const std::size_t other = block_bytes[static_cast<std::size_t>(partner)];
      direct.push_back({partner, reduces ? other : own, reduces ? own : other});
    }
  }
  std::size_t mine = matching(rank, position.bits);  // of the blocks that this rank keeps after the exchange of this bit
  for (int bit = position.bits; bit-- > 0;) {
    const int partner = rank ^ (1 << bit);
    const std::size_t theirs = matching(partner, bit + 1);
    exchanges.push_back({{partner, reduces ? theirs : mine, reduces ? mine : theirs}});
    mine += theirs;
  }
  if (reduces) std::reverse(exchanges.begin(), exchanges.end());
  return exchanges;
}

int tree_exchanges(int group_size) {
  const TreePosition position(0, group_size);
  return position.bits + (position.direct_ranks > 1 ? 1 : 0);
}

}  // namespace shoal::comm
