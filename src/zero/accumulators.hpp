// SPDX-License-Identifier: Apache-2.0
// Gradient accumulation in the three ways that the stage, the gradients' type and the collectives ask for:
//
//                 backward writes to     then                                          buckets send, when
//   InPlace       the partial sums       merges them                                   the partial sum, once a round
//   Converted     staging memory, fp32   rounds it and adds it to the partial sums     the partial sum, once a round
//   ReducedFirst  staging memory, fp32   rounds it; adds this rank's shard of the sum  the staged gradient, after
//                                        over ranks to the partial sums                every micro-step
#pragma once

#include <memory>
#include <vector>

#include "shoal/zero/partial_sums.hpp"
#include "shoal/zero/staging.hpp"

namespace shoal::zero {

/// The way from the buffer that backward writes to this rank's partial sums.
class Accumulator {
 public:
  virtual ~Accumulator() = default;

  /// The unit's flat buffer in float, to which backward writes the gradient of this micro-step.
  virtual float* buffer(int unit, std::size_t micro_step) const = 0;
  /// Number of buckets that must be finished before backward writes the unit's buffer, since they use the same memory.
  virtual std::size_t buckets_before(int unit) const = 0;
  /// Backward has written all of the unit's gradient.
  virtual void complete(int unit, std::size_t micro_step) = 0;
  /// Elements `range` of what a bucket sends, and of what it has reduced.
  virtual Span<std::byte> bucket_part(int unit, Range range) const = 0;
  /// A bucket that was started in this micro-step has the sum over ranks in bucket_part(), a part of this rank's shard.
  virtual void reduced(int unit, std::size_t micro_step, Range range) = 0;
};

/// Where gradients of `dtype` are kept as backward computes them: fp32, whole, and summed in a tree.
bool accumulates_in_place(const AccumulationPlan& accumulation, DType dtype);

/// sums must outlive it; they are in place if accumulates_in_place(). order: the units as backward completes them; buckets:
/// in which they are reduced, `in_flight` at a time while backward goes on.
std::unique_ptr<Accumulator> make_accumulator(const std::vector<model::UnitLayout>& units, const std::vector<int>& order,
                                              const std::vector<Bucket>& buckets, std::size_t in_flight,
                                              const AccumulationPlan& accumulation, DType dtype, PartialSums& sums,
                                              Memory& memory);

}  // namespace shoal::zero
