// SPDX-License-Identifier: Apache-2.0
// Which rank computes which micro-batch when, and in which order gradients are summed.
//
// [Note: one trajectory] A step has M = batch.global / batch.micro micro-batches. Their gradients are added in a fixed
// order, so the sum has the same bits in every stage and on every number D of ranks that is a power of two and divides M.
// With M = q 2^k, q odd, a step is q accumulation rounds of 2^k micro-batches. The gradients of a round are added in a
// binary tree over the index of the micro-batch in the round, lowest bit first; the sums of the rounds are added in order.
// In a round each rank computes A = 2^k / D micro-batches, one per micro-step. A rank adds some levels of the tree by
// itself; the ranks add the others together (comm/tree_reduce.hpp). For example, four micro-batches with gradients g0 ... g3
// are one round, whose sum is (g0 + g1) + (g2 + g3) on
//
//   1 rank   Rank 0 computes g0, g1, g2 and g3, and adds them in this order.
//   2 ranks  Reduced once a round: rank 0 adds g0 + g1, and rank 1 adds g2 + g3. Then the ranks add these two sums.
//            Reduced after every micro-step: in micro-step 0 rank 0 computes g0 and rank 1 g1, and the ranks add g0 + g1.
//            In micro-step 1 they add g2 + g3. Each rank adds these two sums on its own shard.
//   4 ranks  Rank d computes gd. Ranks 0 and 1 add g0 + g1, ranks 2 and 3 add g2 + g3, and then all add these two sums.
//
// In general:
// - Reduced once a round, rank d computes the micro-batches d A ... d A + A - 1 of the round: the rank adds the levels of
//   the low bits of the index by itself, and the ranks add those of the high bits together.
// - Reduced after every micro-step, rank d computes micro-batch a D + d in micro-step a: the ranks add the levels of the low
//   bits together, and each rank those of the high bits, on its shard.
//
// Any other D that divides M makes a single round of all M micro-batches. Its sum is reproducible, but its rounding depends
// on D and on how often gradients are reduced.
#pragma once

#include <bit>
#include <cstddef>

namespace shoal::zero {

struct AccumulationPlan {
  std::size_t rounds = 1;
  std::size_t micro_steps_per_round = 1;  ///< A: micro-batches that each rank computes in a round
  int ranks = 1;
  bool reduced_every_micro_step = false;
  bool sequential = false;  ///< each rank adds its gradients one after another (native collectives fix no order either)

  AccumulationPlan() = default;
  /// group_size must divide micro_batches.
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

  // A rank's turns are its micro-batches of the step, counted over all rounds.
  constexpr std::size_t micro_batch_of_turn(std::size_t turn, int rank) const {
    return micro_batch(round_of(turn), micro_step_of(turn), rank);
  }
  constexpr std::size_t turns() const { return rounds * micro_steps_per_round; }
  constexpr std::size_t round_of(std::size_t turn) const { return turn / micro_steps_per_round; }
  constexpr std::size_t micro_step_of(std::size_t turn) const { return turn % micro_steps_per_round; }

  constexpr std::size_t micro_batches() const { return rounds * micro_steps_per_round * static_cast<std::size_t>(ranks); }

  /// Index in the step of the micro-batch that `rank` computes.
  constexpr std::size_t micro_batch(std::size_t round, std::size_t micro_step, int rank) const {
    const auto size = static_cast<std::size_t>(ranks), own = static_cast<std::size_t>(rank);
    if (reduced_every_micro_step) return (round * micro_steps_per_round + micro_step) * size + own;
    return (round * size + own) * micro_steps_per_round + micro_step;
  }

  // A rank adds the gradients of a round with a stack of partial sums, which works like a binary counter: before micro-step
  // a it holds one sum per set bit of a, with the sum of most micro-batches at the bottom. The new gradient is put on top.
  // Then the top is merged into the sum below it as long as both are sums of the same number of micro-batches.

  /// Height of the stack before this micro-step: the level at which its gradient is put.
  constexpr std::size_t level(std::size_t micro_step) const {
    return sequential ? std::size_t{micro_step > 0} : static_cast<std::size_t>(std::popcount(micro_step));
  }
  /// Number of merges after this micro-step. After the last one of a round a single sum is left.
  constexpr std::size_t merges(std::size_t micro_step) const {
    return sequential || micro_step + 1 == micro_steps_per_round ? level(micro_step)
                                                                 : static_cast<std::size_t>(std::countr_one(micro_step));
  }
  /// Number of buffers that the stack needs. in_place: backward writes each gradient into a new top entry. Otherwise it is
  /// added from another buffer, and needs an entry only if it is not merged at once.
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
