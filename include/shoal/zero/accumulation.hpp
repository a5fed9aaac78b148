// SPDX-License-Identifier: Apache-2.0
// Who computes which micro-batch when, and in which order gradients are summed.
//
// [Note: one trajectory] A step has M = batch.global / batch.micro micro-batches, M = q 2^k with q odd: q rounds of 2^k. The
// gradients of a round are summed in the binary tree over the micro-batch's index in the round, low bits first, whoever
// computes them; the sums of the rounds are added in order. A power of two D of ranks that divides M divides 2^k; A = 2^k /
// D turns are each rank's in a round. Where gradients are reduced once a round, rank d takes the neighbours d A ... d A + A
// - 1, so that what it sums itself are the low bits of the index, and what is summed among ranks (comm/tree_reduce.hpp) the
// high ones. Where they are reduced after every turn, turn a takes the neighbours a D ... a D + D - 1, rank d the d-th of
// them: then the ranks are the low bits and a rank's own sums the high ones. The sum is the same for both and for every such
// D, bit by bit. Any other D that divides M makes one round of it. That sum is reproducible, but differs in rounding from
// that of other numbers of ranks, and of the two orders.
#pragma once

#include <bit>
#include <cstddef>

namespace shoal::zero {

struct AccumulationPlan {
  std::size_t rounds = 1;
  std::size_t micro_steps_per_round = 1;  ///< micro-batches that one rank computes in a round: A
  int ranks = 1;
  bool reduced_every_micro_step = false;
  bool sequential = false;  ///< a rank adds its turns one after another: native collectives, which round as they like anyway

  AccumulationPlan() = default;
  /// ranks must divide micro_batches.
  constexpr AccumulationPlan(std::size_t micro_batches, int group_size, bool every_micro_step = false,
                             bool in_sequence = false)
      : ranks(group_size), reduced_every_micro_step(every_micro_step), sequential(in_sequence) {
    const auto size = static_cast<std::size_t>(group_size);
    if (std::has_single_bit(size) && !sequential) {
      const std::size_t round = std::size_t{1} << static_cast<unsigned>(std::countr_zero(micro_batches));
      rounds = micro_batches / round;
      micro_steps_per_round = round / size;
    } else {
      micro_steps_per_round = micro_batches / size;
    }
  }

  constexpr std::size_t micro_batches() const { return rounds * micro_steps_per_round * static_cast<std::size_t>(ranks); }

  /// The micro-batch's index in the step.
  constexpr std::size_t micro_batch(std::size_t round, std::size_t micro_step, int rank) const {
    const auto size = static_cast<std::size_t>(ranks), own = static_cast<std::size_t>(rank);
    if (reduced_every_micro_step) return (round * micro_steps_per_round + micro_step) * size + own;
    return (round * size + own) * micro_steps_per_round + micro_step;
  }

  // A rank sums its turns with a stack of partial sums (a binary counter): before turn a the stack holds one sum per set bit
  // of a, the largest at the bottom; the new gradient goes on top and is merged downwards while neighbours are of equal
  // size.

  /// Height of the stack before turn a, and so the place of turn a's gradient.
  constexpr std::size_t level(std::size_t micro_step) const {
    return sequential ? std::size_t{micro_step > 0} : static_cast<std::size_t>(std::popcount(micro_step));
  }
  /// How many times the top is added to the one below after turn a. The last turn leaves one sum.
  constexpr std::size_t merges(std::size_t micro_step) const {
    return sequential || micro_step + 1 == micro_steps_per_round ? level(micro_step)
                                                                 : static_cast<std::size_t>(std::countr_one(micro_step));
  }
  /// The largest height: buffers that are needed. in_place: a gradient is written to the top before it is merged; otherwise
  /// it is added from elsewhere, and only one that is not merged at once takes a place.
  constexpr std::size_t stack(bool in_place) const {
    std::size_t most = 1;
    for (std::size_t micro_step = 0; micro_step < micro_steps_per_round; ++micro_step) {
      if ((in_place || merges(micro_step) == 0) && level(micro_step) + 1 > most) most = level(micro_step) + 1;
    }
    return most;
  }
};
static_assert(AccumulationPlan(12, 2).rounds == 3 && AccumulationPlan(12, 2).micro_steps_per_round == 2 &&
              AccumulationPlan(12, 2).micro_batch(1, 0, 1) == 6);
static_assert(AccumulationPlan(8, 1).stack(true) == 4 && AccumulationPlan(8, 1).stack(false) == 3 &&
              AccumulationPlan(8, 1).merges(7) == 3 && AccumulationPlan(8, 8).stack(true) == 1);
static_assert(AccumulationPlan(12, 2, true).micro_batch(1, 0, 1) == 5);
static_assert(AccumulationPlan(6, 3).rounds == 1 && AccumulationPlan(6, 3).micro_steps_per_round == 2);

}  // namespace shoal::zero
