// SPDX-License-Identifier: Apache-2.0
#include "shoal/sync/placement.hpp"

#include <algorithm>

#include "shoal/base/error.hpp"

namespace shoal::sync {

std::string unequal_nodes(const std::vector<int>& node_of) {
  std::vector<int> sizes(static_cast<std::size_t>(node_of.back()) + 1, 0);
  for (const int node : node_of) ++sizes[static_cast<std::size_t>(node)];
  const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
  if (*least == *most) return {};
  return text("the nodes have from ", *least, " to ", *most,
              " ranks; allowed: as many on each, or sync.nprocs_per_node = a ", "divisor of the ", node_of.size(), " ranks");
}

}  // namespace shoal::sync
