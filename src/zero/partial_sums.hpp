// SPDX-License-Identifier: Apache-2.0
// The sums that a rank makes by itself: of the gradients of its micro-steps, in the stack of partial sums that
// AccumulationPlan describes (zero/accumulation.hpp), and of the rounds in order.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/zero/accumulation.hpp"
#include "shoal/zero/stages.hpp"

namespace shoal::zero {

class PartialSums {
 public:
  PartialSums() = default;
  /// Keeps ShardLayout::gradients of every unit in `dtype`. in_place: backward writes gradients to top(), and merge() adds
  /// them. Otherwise add() takes them from another buffer, and the stack needs at most one level less. use: of sum().
  /// places: by unit, the tier of its sums, which kernels reach; empty: all are on the device.
  PartialSums(const std::vector<ShardLayout>& layouts, const AccumulationPlan& accumulation, DType dtype, bool in_place,
              Memory& memory, Use use = Use::kernels, const std::vector<Where>& places = {});

  /// The buffer of the unit's gradient of this micro-step, if it is written in place.
  std::byte* top(int unit, std::size_t micro_step) const;
  /// Merges the gradient that was written to top().
  void merge(int unit, std::size_t micro_step);
  /// Puts elements `range` of the unit's gradient of this micro-step on the stack, from another buffer, and merges them.
  void add(int unit, std::size_t micro_step, Range range, const std::byte* gradient);
  /// After the last micro-step of a round: adds elements `range` of the unit's sum, within this rank's shard, to those of
  /// the rounds before.
  void finish_round(int unit, std::size_t round, Range range);

  /// Elements `range` of the unit's sum: that of the round, or once the last round is finished, that of the step.
  Span<std::byte> sum(int unit, Range range) const { return {at(0, unit, range.begin), range.size() * size_of(dtype_)}; }

 private:
  std::byte* at(std::size_t level, int unit, std::size_t element) const;
  void merge_from(std::size_t top, std::size_t count, int unit, Range range);

  std::vector<ShardLayout> layouts_;
  AccumulationPlan accumulation_;
  DType dtype_ = DType::f32;
  /// A level of the stack, with a buffer in each tier.
  using Level = std::array<Span<std::byte>, where_names.size()>;
  std::vector<std::size_t> wheres_;      // by unit: index of the tier
  std::vector<std::size_t> offsets_;     // by unit, in each buffer of the stack, in bytes
  std::vector<Level> stack_;             // by level; [0] has the sum in the end
  std::vector<Span<std::byte>> rounds_;  // by unit: sum of earlier rounds, on this rank's shard; empty: one round
};

}  // namespace shoal::zero
