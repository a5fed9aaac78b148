// SPDX-License-Identifier: Apache-2.0
// The places of ranks in the groups of an operation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "shoal/plan/collective_costs.hpp"

namespace shoal::plan {

/// Where each rank of the run is in its group. For the functions of Cost, which outlive the arguments that a cost was made
/// from.
class GroupPlaces {
 public:
  explicit GroupPlaces(Grouping grouping) : grouping_(std::move(grouping)) {
    for (std::size_t g = 0; g < grouping_.groups.size(); ++g) {
      const std::vector<int>& group = grouping_.groups[g];
      for (std::size_t i = 0; i < group.size(); ++i) {
        places_.resize(std::max(places_.size(), static_cast<std::size_t>(group[i]) + 1));
        places_[static_cast<std::size_t>(group[i])] = {g, static_cast<int>(i)};
      }
    }
  }
  std::size_t group_of(int rank) const { return places_[static_cast<std::size_t>(rank)].first; }
  int index_of(int rank) const { return places_[static_cast<std::size_t>(rank)].second; }
  /// Replaces ranks of the group by ranks of the run.
  comm::PlannedExchange in_run(int rank, comm::PlannedExchange exchange) const {
    for (comm::PartnerBytes& with : exchange)
      with.partner = grouping_.groups[group_of(rank)][static_cast<std::size_t>(with.partner)];
    return exchange;
  }

 private:
  Grouping grouping_;
  std::vector<std::pair<std::size_t, int>> places_;  // by rank of the run: its group, and its place there
};

/// The item of this group; a single one is that of all groups.
template <class Item>
const Item& of_group(const std::vector<Item>& items, std::size_t group) {
  return items[std::min(group, items.size() - 1)];
}

}  // namespace shoal::plan
