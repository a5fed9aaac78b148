// SPDX-License-Identifier: Apache-2.0
#include "shoal/comm/tree_reduce.hpp"

#include <algorithm>
#include <bit>
#include <deque>
#include <limits>
#include <optional>
#include <utility>

#include "messages.hpp"
#include "shoal/base/error.hpp"
#include "tree_stages.hpp"

namespace shoal::comm {

namespace {

/// How a rank takes part in the tree.
struct Shape {
  Shape(int group_rank, int group_size)
      : rank(group_rank), bits(std::countr_zero(static_cast<unsigned>(group_size))), among(group_size >> bits) {}
  int stride() const { return 1 << bits; }
  /// This rank's place among those that its number's high bits tell apart, and the rank at a place.
  std::size_t own_place() const { return static_cast<std::size_t>(rank >> bits); }
  int rank_at(int place) const { return rank % stride() + place * stride(); }

  int rank;
  int bits;   // the lowest ones of a rank's number, over which is halved
  int among;  // odd: how many ranks agree in these bits and exchange directly
};

constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();

/// Of one slot.
std::size_t slot_bytes(std::size_t bytes) { return std::min(round_up(bytes, line), largest_message_bytes); }

/// For an operation on so many bytes, of which a rank receives half at a time; or, directly, a line of each of its peers at
/// least. No less for more bytes, so that memory for the largest message serves every other.
std::size_t bytes_to_receive(int ranks, std::size_t bytes) {
  const std::size_t half = bytes / 2 / largest_message_bytes + 1;
  const std::size_t slots = std::clamp(half, fewest_slots_to_receive, most_slots_to_receive);
  return std::max(slots * slot_bytes(bytes), static_cast<std::size_t>(Shape(0, ranks).among) * line);
}

std::size_t size_in_bytes(const Spans& spans) {
  std::size_t bytes = 0;
  for (const Span<std::byte> span : spans) bytes += span.size();
  return bytes;
}
std::size_t size_in_bytes(const Blocks& blocks) {
  std::size_t bytes = 0;
  for (const Spans& block : blocks) bytes += size_in_bytes(block);
  return bytes;
}

/// The blocks whose index agrees with `rank` in the lowest `bits`.
Spans blocks_like(const Blocks& blocks, int rank, int bits) {
  Spans spans;
  const std::size_t stride = std::size_t{1} << static_cast<unsigned>(bits);
  for (std::size_t b = static_cast<std::size_t>(rank) % stride; b < blocks.size(); b += stride) {
    spans.insert(spans.end(), blocks[b].begin(), blocks[b].end());
  }
  return spans;
}

/// The messages of an exchange, as many at a time as find room.
///
/// [Note: both ways at once] The consents to a turn's messages leave together, before any data ([Note: consents before
/// data]). If each left when a message had come and made room for another, it would wait behind the data that this rank
/// sends meanwhile, its partner would have nothing to send but consents, which then went at once, and so on: the directions
/// of a link came to be used by turns. So the next turn begins when nothing of the last one is under way, in either
/// direction.
std::vector<std::vector<Message>> in_turns(std::vector<Message> messages, std::size_t room) {
  std::vector<std::vector<Message>> turns;
  std::size_t left = 0;
  for (Message& message : messages) {
    const std::size_t length = round_up(message.bytes, line);
    if (turns.empty() || length > left) {
      turns.emplace_back();
      left = room;
    }
    left -= length;
    turns.back().push_back(std::move(message));
  }
  return turns;
}

/// sum_as: the type of a reduce-scatter's numbers; none: an all-gather, which makes the same way backwards.
class TreeOperation : public Operation {
 public:
  TreeOperation(Communicator& group, std::optional<DType> sum_as, Blocks blocks, Span<std::byte> scratch)
      : sum_as_(sum_as),
        blocks_(std::move(blocks)),
        shape_(group.rank(), group.size()),
        tree_(tree_wire(group, size_in_bytes(blocks_), scratch)),
        name_of_group_(group.name()) {
    if (sum_as_) {
      for (int bit = 0; bit < shape_.bits; ++bit) halve(group, bit);
      if (shape_.among > 1) exchange_directly(group);
    } else {
      if (shape_.among > 1) exchange_directly(group);
      for (int bit = shape_.bits; bit-- > 0;) halve(group, bit);
    }
  }

  bool advance() override {
    std::erase_if(sending_, [](const auto& stage) { return stage->sent(); });
    while (!stages_.empty() && stages_.front()->advance()) {
      sending_.push_back(std::move(stages_.front()));
      stages_.pop_front();
    }
    return stages_.empty() && std::all_of(sending_.begin(), sending_.end(), [](const auto& stage) { return stage->sent(); });
  }
  std::string_view name() const override { return sum_as_ ? "reduce_scatter" : "all_gather"; }
  std::string describe() const override {
    return text("tree ", name(), " of ", name_of_group_, " (tag ", tree_.tag, "), ", size_in_bytes(blocks_), " bytes");
  }

 private:
  static TreeWire tree_wire(Communicator& group, std::size_t bytes, Span<std::byte> scratch) {
    const Span<std::byte> to_send = scratch.first(slots_to_send * slot_bytes(bytes));
    const Span<std::byte> to_receive = scratch.subspan(to_send.size(), bytes_to_receive(group.size(), bytes));
    return {group.wire(), group.next_tag(), to_send, to_receive};
  }

  void halve(const Communicator& group, int bit) {
    const int partner = shape_.rank ^ (1 << bit);
    const Spans mine = blocks_like(blocks_, shape_.rank, bit + 1), theirs = blocks_like(blocks_, partner, bit + 1);
    const std::size_t room = group.same_node(partner) ? no_limit : tree_.memory_to_receive.size();
    auto sent = in_turns(cut_into_messages(sum_as_ ? theirs : mine), room);
    auto received = in_turns(cut_into_messages(sum_as_ ? mine : theirs), room);
    const std::size_t turns = std::max(sent.size(), received.size());
    sent.resize(turns);
    received.resize(turns);
    for (std::size_t turn = 0; turn < turns; ++turn) {
      auto exchange = std::make_unique<Exchange>(tree_, sum_as_, turn + 1 == turns);
      for (Message& message : sent[turn]) exchange->send(partner, std::move(message));
      for (Message& message : received[turn]) exchange->receive(partner, std::move(message));
      stages_.push_back(std::move(exchange));
    }
  }

  /// Among all that agree in the low bits; as many messages at a time as find room when each of them sends so many.
  void exchange_directly(const Communicator& group) {
    const auto places = static_cast<std::size_t>(shape_.among);
    const std::size_t own = shape_.own_place(), of_each = tree_.memory_to_receive.size() / places / line * line;
    const std::size_t largest = std::min(of_each, slot_bytes(size_in_bytes(blocks_)));
    std::vector<int> peers;
    std::vector<std::vector<Message>> by_place;
    std::size_t most = 0;
    bool across = false;
    for (int place = 0; place < shape_.among; ++place) {
      peers.push_back(shape_.rank_at(place));
      by_place.push_back(cut_into_messages(block(peers.back()), largest));
      most = std::max(most, by_place.back().size());
      across |= !group.same_node(peers.back());
    }
    const std::size_t per_turn = sum_as_ || across ? of_each / largest : std::max(most, std::size_t{1});
    for (std::size_t begin = 0; begin < most; begin += per_turn) {
      std::vector<std::vector<Message>> now;
      for (const auto& messages : by_place) {
        const auto at = [&](std::size_t m) {
          return messages.begin() + static_cast<std::ptrdiff_t>(std::min(m, messages.size()));
        };
        now.emplace_back(at(begin), at(begin + per_turn));
      }
      const bool last = begin + per_turn >= most;
      stages_.push_back(sum_as_ ? reduce_directly(peers, own, now, last) : gather_directly(peers, own, now, last));
    }
  }

  /// by_place: messages of the block of each place.
  std::unique_ptr<TreeStage> reduce_directly(const std::vector<int>& peers, std::size_t own,
                                             const std::vector<std::vector<Message>>& by_place, bool last) {
    auto reduce = std::make_unique<DirectReduce>(tree_, *sum_as_, peers, own, by_place[own], last);
    deal(own, by_place, [&](std::size_t to, const Message& m) { reduce->send(peers[to], m); });
    return reduce;
  }

  std::unique_ptr<TreeStage> gather_directly(const std::vector<int>& peers, std::size_t own,
                                             const std::vector<std::vector<Message>>& by_place, bool last) {
    auto exchange = std::make_unique<Exchange>(tree_, sum_as_, last);
    const std::vector<std::vector<Message>> mine(by_place.size(), by_place[own]);
    deal(own, mine, [&](std::size_t to, const Message& m) { exchange->send(peers[to], m); });
    deal(own, by_place, [&](std::size_t from, const Message& m) { exchange->receive(peers[from], m); });
    return exchange;
  }

  const Spans& block(int rank) const { return blocks_[static_cast<std::size_t>(rank)]; }

  std::optional<DType> sum_as_;
  Blocks blocks_;
  Shape shape_;
  TreeWire tree_;
  std::deque<std::unique_ptr<TreeStage>> stages_;    // the first one is under way
  std::vector<std::unique_ptr<TreeStage>> sending_;  // earlier ones, where a partner is late
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
  for (const Spans& block : blocks) block_bytes.push_back(size_in_bytes(block));
  const Traffic sent =
      tree_traffic(group.rank(), sum_as.has_value(), block_bytes, [&](int rank) { return group.same_node(rank); });
  return group.start(std::make_shared<TreeOperation>(group, sum_as, std::move(blocks), scratch), sent);
}

}  // namespace

Request tree_reduce_scatter(Communicator& group, Blocks blocks, DType type, Span<std::byte> scratch) {
  for (const auto& block : blocks) {
    for (const Span<std::byte> span : block) {
      require(span.size() % size_of(type) == 0, "a span of ", span.size(), " bytes is no whole number of ", name_of(type));
    }
  }
  return start_tree(group, type, std::move(blocks), scratch);
}

Request tree_all_gather(Communicator& group, Blocks blocks, Span<std::byte> scratch) {
  return start_tree(group, {}, std::move(blocks), scratch);
}

std::size_t tree_scratch_bytes(int group_size, std::size_t bytes) {
  if (group_size == 1 || bytes == 0) return 0;
  return slots_to_send * slot_bytes(bytes) + bytes_to_receive(group_size, bytes);
}

Traffic tree_traffic(int rank, bool reducing, const std::vector<std::size_t>& block_bytes,
                     const std::function<bool(int rank)>& same_node) {
  const Shape shape(rank, static_cast<int>(block_bytes.size()));
  Traffic sent;
  const auto count = [&](int to, std::size_t bytes) { (same_node(to) ? sent.intra : sent.inter) += bytes; };
  for (int bit = 0; bit < shape.bits; ++bit) {
    const int partner = rank ^ (1 << bit);
    const std::size_t stride = std::size_t{2} << static_cast<unsigned>(bit);
    for (std::size_t b = static_cast<std::size_t>(reducing ? partner : rank) % stride; b < block_bytes.size(); b += stride) {
      count(partner, block_bytes[b]);
    }
  }
  for (int place = 0; place < shape.among; ++place) {
    const int other = shape.rank_at(place);
    if (other != rank) count(other, block_bytes[static_cast<std::size_t>(reducing ? other : rank)]);
  }
  return sent;
}

int tree_exchanges(int group_size) {
  const Shape shape(0, group_size);
  return shape.bits + (shape.among > 1 ? 1 : 0);
}

}  // namespace shoal::comm
