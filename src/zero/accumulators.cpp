// SPDX-License-Identifier: Apache-2.0
#include "accumulators.hpp"

#include <utility>

#include "shoal/kernels/bytes.hpp"
#include "shoal/kernels/storage.hpp"

namespace shoal::zero {

namespace {

class InPlace final : public Accumulator {
 public:
  explicit InPlace(PartialSums& sums) : sums_(sums) {}
  float* buffer(int unit, std::size_t micro_step) const override {
    return reinterpret_cast<float*>(sums_.top(unit, micro_step));
  }
  void begin(int) override {}  // nothing else is ever in this memory
  void complete(int unit, std::size_t micro_step) override { sums_.merge(unit, micro_step); }
  Span<std::byte> bucket_part(int unit, Range range) const override { return sums_.sum(unit, range); }
  void reduced(int, std::size_t, Range) override {}

 private:
  PartialSums& sums_;
};

/// Gradients in staging memory, which are rounded there to the type in which they are kept.
class Staged : public Accumulator {
 public:
  Staged(const std::vector<model::UnitLayout>& units, DType dtype, PartialSums& sums, Staging staging)
      : sums_(sums), staging_(std::move(staging)), units_(units), dtype_(dtype) {
    for (const model::UnitLayout& unit : units_) gaps_.push_back(gaps_of(unit));
  }
  /// Other units, and this one's rounded gradient, were in the same memory.
  void begin(int unit) override {
    for (const Range& gap : gaps_[static_cast<std::size_t>(unit)]) {
      kernels::fill(gap.size(), 0.0F, buffer(unit, 0) + gap.begin);
    }
  }
  float* buffer(int unit, std::size_t) const override { return reinterpret_cast<float*>(staging_.of(unit)); }
  void complete(int unit, std::size_t) override {
    kernels::narrow(dtype_, elements(unit), buffer(unit, 0), staging_.of(unit));
  }

 protected:
  std::size_t elements(int unit) const { return units_[static_cast<std::size_t>(unit)].elements; }
  Span<std::byte> staged(int unit, Range range) const {
    return {staging_.of(unit) + range.begin * size_of(dtype_), range.size() * size_of(dtype_)};
  }

  PartialSums& sums_;

 private:
  /// A copied unit has the same gaps as its original.
  std::vector<Range> gaps_of(const model::UnitLayout& unit) const {
    const auto& tensors = unit.copy_of ? units_[static_cast<std::size_t>(*unit.copy_of)].parameters : unit.parameters;
    std::vector<Range> gaps;
    std::size_t end = 0;
    const auto add = [&](std::size_t begin) {
      if (end < begin) gaps.push_back({end, begin});
    };
    for (const model::Parameter& tensor : tensors) {
      add(tensor.offset);
      end = tensor.range().end;
    }
    if (end > 0) add(unit.elements);
    return gaps;
  }

  Staging staging_;
  std::vector<model::UnitLayout> units_;
  DType dtype_;
  std::vector<std::vector<Range>> gaps_;  // by unit: elements of no tensor
};

class Converted final : public Staged {
 public:
  using Staged::Staged;
  void complete(int unit, std::size_t micro_step) override {
    Staged::complete(unit, micro_step);
    const Range whole{0, elements(unit)};
    sums_.add(unit, micro_step, whole, staged(unit, whole).data());
  }
  Span<std::byte> bucket_part(int unit, Range range) const override { return sums_.sum(unit, range); }
  void reduced(int, std::size_t, Range) override {}
};

class ReducedFirst final : public Staged {
 public:
  using Staged::Staged;
  Span<std::byte> bucket_part(int unit, Range range) const override { return staged(unit, range); }
  void reduced(int unit, std::size_t micro_step, Range range) override {
    sums_.add(unit, micro_step, range, staged(unit, range).data());
  }
};

/// The staging memory from which buckets are sent. They may be unfinished while one more unit is computed.
Staging sent_from(const std::vector<model::UnitLayout>& units, const Sweeps& sweeps, const std::vector<Bucket>& buckets,
                  bool overlap, Memory& memory, Use use) {
  return {units, sweeps, buckets, overlap ? std::size_t{1} : 0, memory, use};
}

}  // namespace

bool accumulates_in_place(const AccumulationPlan& accumulation, DType dtype) {
  const bool adds_in_sequence = accumulation.sequential && accumulation.micro_steps_per_round > 1;
  return !accumulation.reduced_every_micro_step && dtype == DType::f32 && !adds_in_sequence;
}

std::vector<std::size_t> buckets_before_writes(const std::vector<model::UnitLayout>& units, const Sweeps& sweeps,
                                               const std::vector<Bucket>& buckets, bool overlap,
                                               const AccumulationPlan& accumulation) {
  std::vector<std::size_t> before(units.size(), 0);
  if (!accumulation.reduced_every_micro_step) return before;
  Memory counting;
  const Staging staging = sent_from(units, sweeps, buckets, overlap, counting, Use::kernels);
  for (std::size_t u = 0; u < units.size(); ++u) before[u] = staging.buckets_before(static_cast<int>(u));
  return before;
}

std::unique_ptr<Accumulator> make_accumulator(const std::vector<model::UnitLayout>& units, const Sweeps& sweeps,
                                              const std::vector<Bucket>& buckets, bool overlap,
                                              const AccumulationPlan& accumulation, DType dtype, PartialSums& sums,
                                              Memory& memory, Use of_buckets) {
  if (accumulates_in_place(accumulation, dtype)) return std::make_unique<InPlace>(sums);
  if (accumulation.reduced_every_micro_step) {
    return std::make_unique<ReducedFirst>(units, dtype, sums,
                                          sent_from(units, sweeps, buckets, overlap, memory, of_buckets));
  }
  return std::make_unique<Converted>(units, dtype, sums, Staging(units, sweeps, {}, 0, memory));
}

}  // namespace shoal::zero
