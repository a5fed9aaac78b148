// SPDX-License-Identifier: Apache-2.0
#include "shoal/comm/tree_reduce.hpp"

#include <algorithm>
#include <bit>
#include <deque>
#include <optional>
#include <utility>

#include "messages.hpp"
#include "shoal/base/error.hpp"
#include "shoal/kernels/storage.hpp"

namespace shoal::comm {

namespace {

constexpr std::size_t slots_to_send = 2;  // only what must be packed is sent from a slot
constexpr std::size_t slots_to_receive = 4;
constexpr std::size_t line = 64;

/// Partial sums that a pairwise tree over so many ranks holds at a time, at most.
std::size_t tree_height(int ranks) { return static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(ranks))); }
bool power_of_two(int ranks) { return std::has_single_bit(static_cast<unsigned>(ranks)); }

std::size_t slots_of_tree(int ranks) {
  return slots_to_send + slots_to_receive + (power_of_two(ranks) ? 0 : tree_height(ranks));
}

/// Bytes of each slot in scratch memory of this size: whole cache lines.
std::size_t slot_bytes(int ranks, std::size_t scratch) { return scratch / slots_of_tree(ranks) / line * line; }

std::size_t size_in_bytes(const std::vector<Span<std::byte>>& spans) {
  std::size_t bytes = 0;
  for (const Span<std::byte> span : spans) bytes += span.size();
  return bytes;
}
std::size_t size_in_bytes(const Blocks& blocks) {
  std::size_t bytes = 0;
  for (const auto& block : blocks) bytes += size_in_bytes(block);
  return bytes;
}

void append(std::vector<Span<std::byte>>& spans, const std::vector<Span<std::byte>>& more) {
  spans.insert(spans.end(), more.begin(), more.end());
}

/// What all forms of the tree have in common. sum_as: the type of a reduce-scatter's numbers; none: an all-gather.
class TreeOperation : public Operation {
 public:
  TreeOperation(Communicator& group, std::optional<DType> sum_as, Blocks blocks, Span<std::byte> scratch)
      : wire_(group.wire()),
        sum_as_(sum_as),
        blocks_(std::move(blocks)),
        rank_(group.rank()),
        size_(group.size()),
        tag_(group.next_tag()),
        to_send_(scratch, slots_to_send, slot_bytes(size_, scratch.size())),
        to_receive_(scratch.subspan(slots_to_send * slot_bytes(size_, scratch.size())), slots_of_tree(size_) - slots_to_send,
                    slot_bytes(size_, scratch.size())),
        name_of_group_(group.name()) {}

  std::string_view name() const override { return sum_as_ ? "reduce_scatter" : "all_gather"; }
  std::string describe() const override {
    return text("tree ", name(), " of ", name_of_group_, " (tag ", tag_, "), ", size_in_bytes(blocks_), " bytes");
  }

 protected:
  const std::vector<Span<std::byte>>& block(int rank) const { return blocks_[static_cast<std::size_t>(rank)]; }

  Communicator& wire_;
  std::optional<DType> sum_as_;
  Blocks blocks_;
  int rank_, size_, tag_;
  Slots to_send_, to_receive_;

 private:
  const std::string& name_of_group_;
};

/// Recursive halving, and backwards: a power of two of ranks.
class HalvingTree : public TreeOperation {
 public:
  using TreeOperation::TreeOperation;

  /// The blocks whose index agrees with `rank` in the lowest `bits`.
  static std::vector<Span<std::byte>> blocks_like(const Blocks& blocks, int rank, int bits) {
    std::vector<Span<std::byte>> spans;
    const std::size_t stride = std::size_t{1} << static_cast<unsigned>(bits);
    for (std::size_t b = static_cast<std::size_t>(rank) % stride; b < blocks.size(); b += stride) append(spans, blocks[b]);
    return spans;
  }

  bool advance() override {
    const int steps = std::countr_zero(static_cast<unsigned>(size_));
    for (; step_ < steps; ++step_) {
      if (!sender_) begin(sum_as_ ? step_ : steps - 1 - step_);
      const bool sent = sender_->advance();
      if (!receiver_->advance() || !sent) return false;
      sender_.reset();
      receiver_.reset();
    }
    return true;
  }

 private:
  void begin(int bit) {
    const int partner = rank_ ^ (1 << bit);
    sender_.emplace(wire_, tag_, to_send_);
    receiver_.emplace(wire_, tag_, to_receive_, sum_as_);
    const auto mine = blocks_like(blocks_, rank_, bit + 1), theirs = blocks_like(blocks_, partner, bit + 1);
    for (Message& message : cut_into_messages(sum_as_ ? theirs : mine)) sender_->add(partner, std::move(message));
    for (Message& message : cut_into_messages(sum_as_ ? mine : theirs)) receiver_->add(partner, std::move(message));
  }

  int step_ = 0;
  std::optional<Sender> sender_;
  std::optional<Receiver> receiver_;
};

/// Every message for every other rank, messages first: so whoever waits for the first message of all ranks gets it, however
/// few are under way at a time.
template <typename Add>
void deal(int rank, int size, const std::vector<std::vector<Message>>& by_rank, const Add& add) {
  std::size_t most = 0;
  for (const auto& messages : by_rank) most = std::max(most, messages.size());
  for (std::size_t m = 0; m < most; ++m) {
    for (int i = 1; i < size; ++i) {
      const int other = (rank + i) % size;
      const auto& messages = by_rank[static_cast<std::size_t>(other)];
      if (m < messages.size()) add(other, messages[m]);
    }
  }
}

std::vector<std::vector<Message>> cut_blocks(const Blocks& blocks) {
  std::vector<std::vector<Message>> messages;
  messages.reserve(blocks.size());
  for (const auto& block : blocks) messages.push_back(cut_into_messages(block));
  return messages;
}

/// Any number of ranks: each sends its own block to all others.
class DirectGather : public TreeOperation {
 public:
  DirectGather(Communicator& group, Blocks blocks, Span<std::byte> scratch)
      : TreeOperation(group, {}, std::move(blocks), scratch),
        sender_(wire_, tag_, to_send_),
        receiver_(wire_, tag_, to_receive_, {}) {
    const std::vector<std::vector<Message>> own(blocks_.size(), cut_into_messages(block(rank_)));
    deal(rank_, size_, own, [&](int other, const Message& message) { sender_.add(other, message); });
    deal(rank_, size_, cut_blocks(blocks_), [&](int other, const Message& message) { receiver_.add(other, message); });
  }

  bool advance() override {
    const bool sent = sender_.advance();
    return receiver_.advance() && sent;
  }

 private:
  Sender sender_;
  Receiver receiver_;
};

/// Any number of ranks: each receives its own block from all others, message by message, and adds the ranks' contributions
/// in a pairwise tree, as a binary counter does: after rank r as many sums are merged as r ends with ones.
class DirectReduce : public TreeOperation {
 public:
  DirectReduce(Communicator& group, DType type, Blocks blocks, Span<std::byte> scratch)
      : TreeOperation(group, type, std::move(blocks), scratch),
        type_(type),
        own_(cut_into_messages(block(rank_))),
        sender_(wire_, tag_, to_send_) {
    deal(rank_, size_, cut_blocks(blocks_), [&](int other, const Message& message) { sender_.add(other, message); });
  }

  bool advance() override {
    const bool sent = sender_.advance();
    do {
      post();
    } while (add_next());
    return sent && adding_.message == own_.size();
  }

 private:
  /// A rank's contribution to a message of this rank's block.
  struct Place {
    std::size_t message = 0;
    int rank = 0;
    void advance(int size) {
      if (++rank == size) *this = {message + 1, 0};
    }
  };
  struct Arriving {
    Span<std::byte> slot;
    Request request;
  };

  void post() {
    for (; posting_.message < own_.size() && arriving_.size() < slots_to_receive; posting_.advance(size_)) {
      if (posting_.rank == rank_) continue;
      const Span<std::byte> slot = to_receive_.take();
      const Span<std::byte> data = slot.first(own_[posting_.message].bytes);
      arriving_.push_back({slot, wire_.receive(data, posting_.rank, tag_)});
    }
  }

  bool add_next() {
    if (adding_.message == own_.size()) return false;
    const Message& message = own_[adding_.message];
    if (adding_.rank == rank_) {
      sums_.push_back(to_receive_.take());
      pack(message, sums_.back());
    } else {
      if (!arriving_.front().request.test()) return false;
      sums_.push_back(arriving_.front().slot);
      arriving_.pop_front();
    }
    const bool last = adding_.rank + 1 == size_;
    const int merges = last ? static_cast<int>(sums_.size()) - 1 : std::countr_one(static_cast<unsigned>(adding_.rank));
    for (int i = 0; i < merges; ++i) {
      const Span<std::byte> top = sums_.back();
      sums_.pop_back();
      kernels::add(type_, message.bytes / size_of(type_), top.data(), sums_.back().data());
      to_receive_.give_back(top);
    }
    if (last) {
      unpack(sums_.back(), message);
      to_receive_.give_back(sums_.back());
      sums_.pop_back();
    }
    adding_.advance(size_);
    return true;
  }

  DType type_;
  std::vector<Message> own_;
  Sender sender_;
  Place posting_, adding_;
  std::deque<Arriving> arriving_;
  std::vector<Span<std::byte>> sums_;
};

/// What this rank sends.
Traffic sent_by(Communicator& group, bool reducing, const Blocks& blocks) {
  const int rank = group.rank(), size = group.size();
  Traffic sent;
  const auto count = [&](int to, const std::vector<Span<std::byte>>& spans) {
    (group.same_node(to) ? sent.intra : sent.inter) += size_in_bytes(spans);
  };
  if (power_of_two(size)) {
    for (int bit = 0; 1 << bit < size; ++bit) {
      const int partner = rank ^ (1 << bit);
      count(partner, HalvingTree::blocks_like(blocks, reducing ? partner : rank, bit + 1));
    }
  } else {
    for (int other = 0; other < size; ++other) {
      if (other != rank) count(other, blocks[static_cast<std::size_t>(reducing ? other : rank)]);
    }
  }
  return sent;
}

Request start_tree(Communicator& group, std::optional<DType> sum_as, Blocks blocks, Span<std::byte> scratch) {
  const int size = group.size();
  require(blocks.size() == static_cast<std::size_t>(size), "a tree over ", size, " ranks got ", blocks.size(), " blocks");
  if (size == 1) return {};
  const std::size_t bytes = size_in_bytes(blocks), needed = tree_scratch_bytes(size, bytes);
  require(scratch.size() >= needed, "a tree over ", size, " ranks and ", bytes, " bytes needs scratch of ", needed,
          " bytes, got ", scratch.size());
  const Traffic sent = sent_by(group, sum_as.has_value(), blocks);
  std::shared_ptr<Operation> operation;
  if (power_of_two(size)) {
    operation = std::make_shared<HalvingTree>(group, sum_as, std::move(blocks), scratch);
  } else if (sum_as) {
    operation = std::make_shared<DirectReduce>(group, *sum_as, std::move(blocks), scratch);
  } else {
    operation = std::make_shared<DirectGather>(group, std::move(blocks), scratch);
  }
  return group.start(std::move(operation), sent);
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
  if (group_size == 1) return 0;
  return slots_of_tree(group_size) * std::min(round_up(bytes, line), largest_message_bytes);
}

}  // namespace shoal::comm
