// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/staging.hpp"

#include <algorithm>
#include <numeric>

#include "shoal/zero/lifetimes.hpp"

namespace shoal::zero {

// Time is the index in backward's order: unit order[t] is written at time t, or from time 0 to t if its gradient is early.
Staging::Staging(const std::vector<model::UnitLayout>& units, const std::vector<int>& order,
                 const std::vector<Bucket>& buckets, std::size_t in_flight, Memory& memory) {
  std::vector<std::size_t> time_of(units.size());
  for (std::size_t t = 0; t < order.size(); ++t) time_of[static_cast<std::size_t>(order[t])] = t;

  // complete_before[t]: number of buckets that are finished before time t; those that were started, except `in_flight` ones.
  // buckets_of: number of buckets up to the unit's last one.
  std::vector<std::size_t> complete_before(order.size() + 1, 0), buckets_of(units.size(), 0);
  for (std::size_t m = 0; m < buckets.size(); ++m) {
    ++complete_before[time_of[static_cast<std::size_t>(buckets[m].last_unit)] + 1];
    for (const Part& part : buckets[m].parts) buckets_of[static_cast<std::size_t>(part.unit)] = m + 1;
  }
  std::partial_sum(complete_before.begin(), complete_before.end(), complete_before.begin());
  for (std::size_t& complete : complete_before) complete -= std::min(in_flight, complete);

  std::vector<Lifetime> lifetimes;
  buckets_before_.resize(units.size());
  for (std::size_t u = 0; u < units.size(); ++u) {
    const std::size_t first = units[u].early_gradient ? 0 : time_of[u];
    std::size_t last = time_of[u];
    while (last + 1 < complete_before.size() && complete_before[last + 1] < buckets_of[u]) ++last;
    lifetimes.push_back({units[u].elements * sizeof(float), first, last});
    buckets_before_[u] = complete_before[first];
  }
  const MemoryLayout layout = lay_out(lifetimes);
  offsets_ = layout.offsets;
  memory_ = memory.take<std::byte>(Kind::buffers, layout.bytes, "gradients of a micro-batch");
}

}  // namespace shoal::zero
