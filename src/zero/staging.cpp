// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/staging.hpp"

#include <algorithm>

#include "shoal/zero/lifetimes.hpp"

namespace shoal::zero {

// Time is the place in backward's order: unit order[t] is computed at time t, an early one from the start of the pass.
Staging::Staging(const std::vector<model::UnitLayout>& units, const std::vector<int>& order,
                 const std::vector<Message>& messages, std::size_t in_flight, Memory& memory) {
  std::vector<std::size_t> time_of(units.size());
  for (std::size_t t = 0; t < order.size(); ++t) time_of[static_cast<std::size_t>(order[t])] = t;

  // Complete before time t: what could be started before, but for those in flight.
  std::vector<std::size_t> complete_before(order.size() + 1, 0);
  for (std::size_t t = 0; t <= order.size(); ++t) {
    const auto started = std::count_if(messages.begin(), messages.end(),
                                       [&](const Message& m) { return time_of[static_cast<std::size_t>(m.last_unit)] < t; });
    complete_before[t] = static_cast<std::size_t>(started) - std::min(in_flight, static_cast<std::size_t>(started));
  }

  std::vector<Lifetime> lifetimes;
  messages_before_.resize(units.size());
  for (std::size_t u = 0; u < units.size(); ++u) {
    const std::size_t first = units[u].early_gradient ? 0 : time_of[u];
    std::size_t last = time_of[u];
    for (std::size_t m = 0; m < messages.size(); ++m) {
      const auto takes = [&](const Part& part) { return part.unit == static_cast<int>(u); };
      if (std::none_of(messages[m].parts.begin(), messages[m].parts.end(), takes)) continue;
      while (last + 1 < complete_before.size() && complete_before[last + 1] <= m) ++last;
    }
    lifetimes.push_back({units[u].elements * sizeof(float), first, last});
    messages_before_[u] = complete_before[first];
  }
  const Places places = place(lifetimes);
  offsets_ = places.offsets;
  memory_ = memory.take<std::byte>(Kind::buffers, places.bytes, "gradients of a micro-batch");
}

}  // namespace shoal::zero
