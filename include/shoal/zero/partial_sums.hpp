// SPDX-License-Identifier: Apache-2.0
// What a rank sums itself: the gradients of its turns in a stack of partial sums ([Note: one trajectory] in
// zero/accumulation.hpp), and the rounds in order.
#pragma once

#include <cstddef>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/zero/accumulation.hpp"
#include "shoal/zero/stages.hpp"

namespace shoal::zero {

class PartialSums {
 public:
  PartialSums() = default;
  /// Holds ShardLayout::gradients of every unit in `dtype`. in_place: gradients are written to the stack's top by whoever
  /// makes them; otherwise they are added from elsewhere, which takes one level less.
  PartialSums(const std::vector<ShardLayout>& layouts, const AccumulationPlan& accumulation, DType dtype, bool in_place,
              Memory& memory);

  /// The level of this turn's gradient of a unit, where it is written in level.
  std::byte* top(int unit, std::size_t micro_step) const;
  /// The unit's gradient of this turn is in its level: merges.
  void merge(int unit, std::size_t micro_step);
  /// Elements `range` of the unit's flat buffer, from elsewhere: into their level, and merges.
  void add(int unit, std::size_t micro_step, Range range, const std::byte* gradient);
  /// After the last turn of a round: what the unit's sum is now, on this rank's shard, is added to the rounds before.
  void finish_round(int unit, std::size_t round);

  /// Elements `range` of a unit's sum: of the round until the last round is finished, of the step then.
  Span<std::byte> sum(int unit, Range range) const { return {at(0, unit, range.begin), range.size() * size_of(dtype_)}; }

 private:
  std::byte* at(std::size_t level, int unit, std::size_t element) const;
  void merge_from(std::size_t top, std::size_t count, int unit, Range range);

  std::vector<ShardLayout> layouts_;
  AccumulationPlan accumulation_;
  DType dtype_ = DType::f32;
  std::vector<std::size_t> offsets_;     // of each unit in the buffers of the stack, in bytes
  std::vector<Span<std::byte>> stack_;   // [0]: the sum in the end
  std::vector<Span<std::byte>> rounds_;  // by unit: this rank's shard summed over the rounds before; empty: one round only
};

}  // namespace shoal::zero
