// SPDX-License-Identifier: Apache-2.0
// Memory to which backward writes the gradient of a micro-batch that is not summed in place (src/zero/accumulators.hpp):
// only a shard of its sum over ranks is kept (stages 2 and 3), or it is kept in another precision, or added in sequence.
#pragma once

#include <cstddef>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/model/unit.hpp"
#include "shoal/zero/buckets.hpp"

namespace shoal::zero {

class Staging {
 public:
  /// buckets: those that are reduced from this memory, each started when its last unit is complete, with at most `in_flight`
  /// of them unfinished while further units are computed. Empty if a unit is copied out as soon as it is complete. All
  /// sweeps use the same memory: when one begins, the buckets of all others must be finished. use: of the memory.
  Staging(const std::vector<model::UnitLayout>& units, const Sweeps& sweeps, const std::vector<Bucket>& buckets,
          std::size_t in_flight, Memory& memory, Use use = Use::kernels);

  /// The unit's flat buffer, in float.
  std::byte* of(int unit) const { return memory_.data() + offsets_[static_cast<std::size_t>(unit)]; }
  /// Number of buckets of the unit's sweep that must be finished before the unit is written, since they use the memory that
  /// it is given.
  std::size_t buckets_before(int unit) const { return buckets_before_[static_cast<std::size_t>(unit)]; }

 private:
  /// Places the units of a sweep. Returns the bytes that they need.
  std::size_t place(const std::vector<model::UnitLayout>& units, const std::vector<int>& sweep,
                    const std::vector<Bucket>& buckets, std::size_t in_flight);

  std::vector<std::size_t> offsets_, buckets_before_;  // by unit
  Span<std::byte> memory_;
};

}  // namespace shoal::zero
