// SPDX-License-Identifier: Apache-2.0
// Who computes which micro-batch when, and in which order gradients are summed.
//
// [Note: one trajectory] A step has M = batch.global / batch.micro micro-batches, M = q 2^k with q odd: q rounds of 2^k. The
// gradients of a round are summed in the binary tree over the micro-batch's index in the round, low bits first, whoever
// computes them; the sums of the rounds are added in order. A power of two D of ranks that divides M divides 2^k: rank d
// then takes the A = 2^k / D neighbours d A ... d A + A - 1 of each round, so that what it sums itself are the low bits, and
// what is summed among ranks (comm/tree_reduce.hpp) the high ones. The sum is the same for every such D, bit by bit. Any
// other D that divides M makes one round of it: rank d takes its M / D neighbours, a tree among themselves. That sum is
// reproducible, but differs in rounding from that of other numbers of ranks.
#pragma once

#include <bit>
#include <cstddef>

namespace shoal::zero {

struct Turns {
  std::size_t rounds = 1;
  std::size_t per_round = 1;  ///< micro-batches that one rank computes in a round: A
  int ranks = 1;

  Turns() = default;
  /// ranks must divide micro_batches.
  constexpr Turns(std::size_t micro_batches, int group_size) : ranks(group_size) {
    const auto size = static_cast<std::size_t>(group_size);
    if (std::has_single_bit(size)) {
      const std::size_t round = std::size_t{1} << static_cast<unsigned>(std::countr_zero(micro_batches));
      rounds = micro_batches / round;
      per_round = round / size;
    } else {
      per_round = micro_batches / size;
    }
  }

  constexpr std::size_t micro_batches() const { return rounds * per_round * static_cast<std::size_t>(ranks); }

  /// The micro-batch's index in the step.
  constexpr std::size_t micro_batch(std::size_t round, std::size_t turn, int rank) const {
    return (round * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(rank)) * per_round + turn;
  }

  // A rank sums its turns with a stack of partial sums (a binary counter): before turn a the stack holds one sum per set bit
  // of a, the largest at the bottom; the new gradient goes on top and is merged downwards while neighbours are of equal
  // size.

  /// Height of the stack before turn a, and so the place of turn a's gradient.
  static constexpr std::size_t place(std::size_t turn) { return static_cast<std::size_t>(std::popcount(turn)); }
  /// How many times the top is added to the one below after turn a. The last turn leaves one sum.
  constexpr std::size_t merges(std::size_t turn) const {
    return turn + 1 == per_round ? place(turn) : static_cast<std::size_t>(std::countr_one(turn));
  }
  /// The largest height: buffers that are needed, the gradient's own included.
  constexpr std::size_t stack() const {
    std::size_t most = 0;
    for (std::size_t turn = 0; turn < per_round; ++turn) most = place(turn) + 1 > most ? place(turn) + 1 : most;
    return most;
  }
};
static_assert(Turns(12, 2).rounds == 3 && Turns(12, 2).per_round == 2 && Turns(12, 2).micro_batch(1, 0, 1) == 6);
static_assert(Turns(8, 1).stack() == 4 && Turns(8, 1).merges(7) == 3 && Turns(8, 8).stack() == 1);
static_assert(Turns(6, 3).rounds == 1 && Turns(6, 3).per_round == 2);

}  // namespace shoal::zero
