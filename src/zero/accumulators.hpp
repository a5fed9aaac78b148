// SPDX-License-Identifier: Apache-2.0
// How a micro-batch's gradient gets from the buffer that backward writes to this rank's partial sums:
//
// - InPlace: backward writes it on top of the partial sums, where it is merged. Buckets send the sum of a round.
// - Converted: backward writes fp32 to staging memory; the gradient is rounded to the type in which it is kept and added to
//   the partial sums. Buckets send the sum of a round.
// - ReducedFirst (stages 2 and 3): backward writes fp32 to staging memory; buckets send the rounded gradient from there
//   after every micro-step, and this rank's shard of the sum over ranks is added to the partial sums.
#pragma once

#include <memory>
#include <vector>

#include "zero/partial_sums.hpp"
#include "zero/staging.hpp"

namespace shoal::zero {

class Accumulator {
 public:
  virtual ~Accumulator() = default;

  /// The unit's flat buffer in float, to which backward writes the gradient of this micro-step.
  virtual float* buffer(int unit, std::size_t micro_step) const = 0;
  /// The unit's gradient is written from now on. Makes the gaps between its tensors zero: they belong to what is reduced,
  /// and backward does not write them.
  virtual void begin(int unit) = 0;
  /// Backward has written all of the unit's gradient.
  virtual void complete(int unit, std::size_t micro_step) = 0;
  /// Memory that a bucket reduces for elements `range` of the unit.
  virtual Span<std::byte> bucket_part(int unit, Range range) const = 0;
  /// A bucket that was started in this micro-step is finished: bucket_part() has the sum over ranks of `range`, which is in
  /// this rank's shard.
  virtual void reduced(int unit, std::size_t micro_step, Range range) = 0;
};

/// Returns true if backward can write to the partial sums: they are whole and in fp32, and are added in a tree.
bool accumulates_in_place(const AccumulationPlan& accumulation, DType dtype);

/// By unit: the number of buckets of its sweep that must be finished before backward writes its buffer, since they use the
/// same memory.
std::vector<std::size_t> buckets_before_writes(const std::vector<model::UnitLayout>& units, const Sweeps& sweeps,
                                               const std::vector<Bucket>& buckets, bool overlap,
                                               const AccumulationPlan& accumulation);

/// sums: made in place if accumulates_in_place(); must outlive the result. overlap: backward goes on while buckets are
/// reduced. of_buckets: the use of the memory that buckets are reduced from. The other arguments are as in Staging.
std::unique_ptr<Accumulator> make_accumulator(const std::vector<model::UnitLayout>& units, const Sweeps& sweeps,
                                              const std::vector<Bucket>& buckets, bool overlap,
                                              const AccumulationPlan& accumulation, DType dtype, PartialSums& sums,
                                              Memory& memory, Use of_buckets);

}  // namespace shoal::zero
