// SPDX-License-Identifier: Apache-2.0
#include "zero/staging.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "zero/lifetimes.hpp"

namespace shoal::zero {

namespace {

/// The buckets of the units of a sweep. No bucket has units of two sweeps.
std::vector<Bucket> buckets_of(const std::vector<int>& sweep, const std::vector<Bucket>& buckets, std::size_t units) {
  std::vector<bool> in_sweep(units, false);
  for (const int unit : sweep) in_sweep[static_cast<std::size_t>(unit)] = true;
  std::vector<Bucket> result;
  std::copy_if(buckets.begin(), buckets.end(), std::back_inserter(result),
               [&](const Bucket& bucket) { return in_sweep[static_cast<std::size_t>(bucket.last_unit)]; });
  return result;
}

}  // namespace

Staging::Staging(const std::vector<model::UnitLayout>& units, const Sweeps& sweeps, const std::vector<Bucket>& buckets,
                 std::size_t in_flight, Memory& memory, Use use)
    : offsets_(units.size()), buckets_before_(units.size()) {
  std::size_t bytes = 0;
  for (const std::vector<int>& sweep : sweeps) {
    bytes = std::max(bytes, place(units, sweep, buckets_of(sweep, buckets, units.size()), in_flight));
  }
  memory_ = memory.take<std::byte>(Kind::buffers, bytes, "gradients of a micro-batch", use);
}

// Time is the index in the sweep: unit sweep[t] is written at time t, or from time 0 to t if its gradient is early.
std::size_t Staging::place(const std::vector<model::UnitLayout>& units, const std::vector<int>& sweep,
                           const std::vector<Bucket>& buckets, std::size_t in_flight) {
  std::vector<std::size_t> time_of(units.size());
  for (std::size_t t = 0; t < sweep.size(); ++t) time_of[static_cast<std::size_t>(sweep[t])] = t;

  // complete_before[t]: number of buckets that are finished before time t; those that were started, except `in_flight` ones.
  // buckets_of: number of buckets up to the unit's last one.
  std::vector<std::size_t> complete_before(sweep.size() + 1, 0), buckets_of(units.size(), 0);
  for (std::size_t m = 0; m < buckets.size(); ++m) {
    ++complete_before[time_of[static_cast<std::size_t>(buckets[m].last_unit)] + 1];
    for (const BucketPiece& part : buckets[m].parts) buckets_of[static_cast<std::size_t>(part.unit)] = m + 1;
  }
  std::partial_sum(complete_before.begin(), complete_before.end(), complete_before.begin());
  for (std::size_t& complete : complete_before) complete -= std::min(in_flight, complete);

  std::vector<int> in_order = sweep;
  std::sort(in_order.begin(), in_order.end());
  std::vector<Lifetime> lifetimes;
  for (const int unit : in_order) {
    const auto u = static_cast<std::size_t>(unit);
    const std::size_t first = units[u].early_gradient ? 0 : time_of[u];
    std::size_t last = time_of[u];
    while (last + 1 < complete_before.size() && complete_before[last + 1] < buckets_of[u]) ++last;
    lifetimes.push_back({units[u].elements * sizeof(float), first, last});
    buckets_before_[u] = complete_before[first];
  }
  const MemoryLayout layout = lay_out(lifetimes);
  for (std::size_t i = 0; i < in_order.size(); ++i) offsets_[in_order[i]] = layout.offsets[i];
  return layout.bytes;
}

}  // namespace shoal::zero
