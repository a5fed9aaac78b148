// SPDX-License-Identifier: Apache-2.0
// Where backward writes the gradient of one micro-batch when no rank keeps it as it is: because only a shard of its sum over
// ranks is kept (stages 2 and 3), or because it is kept in another precision.
#pragma once

#include <cstddef>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/model/unit.hpp"
#include "shoal/zero/buckets.hpp"

namespace shoal::zero {

class Staging {
 public:
  /// order: the units as backward completes them. messages: what the units are reduced in from here, each as soon as its
  /// last unit is complete, `in_flight` of them while further units are computed; empty where a unit leaves its place as
  /// soon as it is complete.
  Staging(const std::vector<model::UnitLayout>& units, const std::vector<int>& order, const std::vector<Bucket>& buckets,
          std::size_t in_flight, Memory& memory);

  /// The unit's flat buffer, in float.
  std::byte* of(int unit) const { return memory_.data() + offsets_[static_cast<std::size_t>(unit)]; }
  /// How many messages must be complete before the unit is written to: those that take from what lay there.
  std::size_t buckets_before(int unit) const { return buckets_before_[static_cast<std::size_t>(unit)]; }

 private:
  std::vector<std::size_t> offsets_, buckets_before_;  // by unit
  Span<std::byte> memory_;
};

}  // namespace shoal::zero
