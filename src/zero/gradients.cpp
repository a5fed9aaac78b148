// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/gradients.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "shoal/base/error.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/kernels/pointwise.hpp"
#include "shoal/kernels/reduce.hpp"
#include "shoal/zero/partition.hpp"
#include "shoal/zero/tree_sum.hpp"

namespace shoal::zero {

namespace {

constexpr std::size_t in_flight = 2;  // messages whose scratch memory is planned; the next one waits for the oldest

Range shard_pieces(std::size_t elements, int rank, int ranks) {
  const Range shard = shard_of(elements, rank, ranks);
  return {shard.begin / piece, (shard.end + piece - 1) / piece};
}

std::size_t piece_count(std::size_t elements) { return (elements + piece - 1) / piece; }

/// Backward completes the last unit first; the embedding, which a tied head writes to first, is the last.
std::vector<int> completion_order(std::size_t units) {
  std::vector<int> order(units);
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

/// Numbers that a rank contributes to the norm: its subtrees of every unit.
std::size_t subtrees_of(const std::vector<model::UnitLayout>& units, int rank, int ranks) {
  std::size_t count = 0;
  for (const auto& unit : units) {
    count += subtree_count(piece_count(unit.elements), shard_pieces(unit.elements, rank, ranks));
  }
  return count;
}

}  // namespace

Gradients::Gradients(const std::vector<model::UnitLayout>& units, const Turns& turns, const Placement& placement,
                     const GradientOptions& options, Memory& memory)
    : units_(units), turns_(turns), placement_(placement), options_(options), complete_(units.size(), false) {
  std::size_t elements = 0, shards = 0;
  for (const auto& unit : units_) {
    offsets_.push_back(elements);
    shard_offsets_.push_back(shards);
    elements += unit.elements;
    shards += shard_of(unit.elements, placement_.rank, placement_.ranks).size();
  }
  stack_.push_back(memory.take<float>(Kind::gradients, elements, "gradients"));
  for (std::size_t place = 1; place < turns_.stack(); ++place) {
    stack_.push_back(memory.take<float>(Kind::buffers, elements, "partial sums of accumulation"));
  }
  if (turns_.rounds > 1) rounds_ = memory.take<float>(Kind::buffers, shards, "sum over rounds");

  messages_ = cut_messages(units_, completion_order(units_.size()), placement_.ranks, options_.message_elements);
  std::size_t largest = 0;
  for (const Message& message : messages_) largest = std::max(largest, message.elements);
  const std::size_t scratch = comm::tree_scratch_bytes(placement_.ranks, largest * sizeof(float));
  for (std::size_t i = 0; i < std::min(in_flight, messages_.size()); ++i) {
    scratch_.push_back(memory.take<std::byte>(Kind::buffers, scratch, "messages"));
  }

  for (const auto& unit : units_) {
    const Range pieces = shard_pieces(unit.elements, placement_.rank, placement_.ranks);
    piece_sums_.push_back(memory.take<double>(Kind::buffers, pieces.size(), "sums by piece"));
  }
  std::size_t most = 0;  // equal room for every rank, so that one all-gather serves
  for (int r = 0; r < placement_.ranks; ++r) most = std::max(most, subtrees_of(units_, r, placement_.ranks));
  subtrees_ = memory.take<double>(Kind::buffers, most, "sums by subtree");
  all_subtrees_ = memory.take<double>(Kind::buffers, most * static_cast<std::size_t>(placement_.ranks), "sums by subtree");
}

Span<float> Gradients::buffer(std::size_t place, int unit) const {
  const auto u = static_cast<std::size_t>(unit);
  return stack_[place].subspan(offsets_[u], units_[u].elements);
}

void Gradients::begin_turn(std::size_t round, std::size_t turn) {
  round_ = round;
  turn_ = turn;
  if (turn == 0) started_ = 0;
  std::fill(complete_.begin(), complete_.end(), false);
}

float* Gradients::of(int unit) { return buffer(Turns::place(turn_), unit).data(); }

void Gradients::complete(int unit) {
  const auto u = static_cast<std::size_t>(unit);
  require(!complete_[u], "the gradient of unit ", units_[u].name, " was completed twice in one turn");
  complete_[u] = true;
  std::size_t top = Turns::place(turn_);
  for (std::size_t i = 0; i < turns_.merges(turn_); ++i, --top) {
    kernels::add(units_[u].elements, buffer(top, unit).data(), buffer(top - 1, unit).data());
  }
  if (options_.overlap && turn_ + 1 == turns_.per_round) start_ready();
}

comm::Blocks Gradients::blocks(const Message& message) const {
  comm::Blocks blocks(static_cast<std::size_t>(placement_.ranks));
  for (int d = 0; d < placement_.ranks; ++d) {
    for (const Part& part : message.parts) {
      const auto u = static_cast<std::size_t>(part.unit);
      const Range range = block_of(part, units_[u].elements, d, placement_.ranks);
      if (!range.empty())
        blocks[static_cast<std::size_t>(d)].push_back(
            comm::bytes_of(buffer(0, part.unit).subspan(range.begin, range.size())));
    }
  }
  return blocks;
}

/// Messages are started in one order on all ranks: that of messages_, each as soon as its last unit is complete.
void Gradients::start_ready() {
  while (started_ < messages_.size() && complete_[static_cast<std::size_t>(messages_[started_].last_unit)])
    start(started_++);
}

void Gradients::start(std::size_t message) {
  if (placement_.ranks == 1) return;
  if (reducing_.size() == scratch_.size()) {
    reducing_.front().wait();
    reducing_.pop_front();
  }
  reducing_.push_back(comm::tree_reduce_scatter(*placement_.group, blocks(messages_[message]), DType::f32,
                                                scratch_[message % scratch_.size()]));
}

void Gradients::finish_round() {
  for (std::size_t u = 0; u < units_.size(); ++u) {
    require(complete_[u], "backward ended without the gradient of unit ", units_[u].name);
  }
  while (started_ < messages_.size()) start(started_++);
  for (; !reducing_.empty(); reducing_.pop_front()) reducing_.front().wait();
  add_rounds();
}

/// Sums of rounds are added in order, each rank's on its own shards; the last one stays in the gradient's buffer.
void Gradients::add_rounds() {
  if (turns_.rounds == 1) return;
  const bool last = round_ + 1 == turns_.rounds;
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const Range shard = shard_of(units_[u].elements, placement_.rank, placement_.ranks);
    const Span<float> current = buffer(0, static_cast<int>(u)).subspan(shard.begin, shard.size());
    const Span<float> before = rounds_.subspan(shard_offsets_[u], shard.size());
    if (last) {
      kernels::add(shard.size(), before.data(), current.data());
    } else if (round_ == 0) {
      kernels::copy_bytes(shard.size() * sizeof(float), current.data(), before.data());
    } else {
      kernels::add(shard.size(), current.data(), before.data());
    }
  }
}

Norm Gradients::norm() {
  // The shards are final: what others need of them is on its way while their norm is computed.
  if (placement_.ranks > 1) {
    for (std::size_t i = 0; i < std::min(scratch_.size(), messages_.size()); ++i) {
      gathering_.push_back(comm::tree_all_gather(*placement_.group, blocks(messages_[i]), scratch_[i]));
    }
  }
  std::size_t at = 0;
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const Range shard = shard_of(units_[u].elements, placement_.rank, placement_.ranks);
    const Range pieces = shard_pieces(units_[u].elements, placement_.rank, placement_.ranks);
    kernels::sum_of_squares_by_piece(shard.size(), buffer(0, static_cast<int>(u)).data() + shard.begin,
                                     piece_sums_[u].data());
    for (const double sum : subtree_sums(piece_count(units_[u].elements), pieces, piece_sums_[u])) subtrees_[at++] = sum;
  }
  if (placement_.ranks > 1) {
    placement_.group->all_gather(comm::bytes_of(subtrees_), comm::bytes_of(all_subtrees_)).wait();
  } else {
    std::copy(subtrees_.begin(), subtrees_.end(), all_subtrees_.begin());
  }

  Norm norm;
  double squares = 0;
  std::vector<std::size_t> next(static_cast<std::size_t>(placement_.ranks), 0);
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const std::size_t pieces = piece_count(units_[u].elements);
    std::vector<Range> owners;
    std::vector<Span<const double>> values;
    for (std::size_t r = 0; r < next.size(); ++r) {
      owners.push_back(shard_pieces(units_[u].elements, static_cast<int>(r), placement_.ranks));
      const std::size_t count = subtree_count(pieces, owners[r]);
      values.push_back(all_subtrees_.subspan(r * subtrees_.size() + next[r], count));
      next[r] += count;
    }
    const double sum = join_subtrees(pieces, owners, values);
    if (!std::isfinite(sum)) norm.broken_unit = static_cast<int>(u);
    squares += sum;
  }
  norm.value = std::sqrt(squares);
  return norm;
}

void Gradients::gather() {
  if (placement_.ranks == 1) return;
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    gathering_[i % scratch_.size()].wait();
    const std::size_t next = i + scratch_.size();
    if (next < messages_.size()) {
      gathering_[i % scratch_.size()] =
          comm::tree_all_gather(*placement_.group, blocks(messages_[next]), scratch_[i % scratch_.size()]);
    }
  }
  gathering_.clear();
}

Span<const float> Gradients::reduced(int unit) const { return buffer(0, unit); }

}  // namespace shoal::zero
