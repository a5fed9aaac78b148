// SPDX-License-Identifier: Apache-2.0
#include "kernels/portable/launch.hpp"

#include "shoal/base/error.hpp"

namespace shoal::kernels::portable {

void require_countable(const char* label, std::size_t items) {
  require(items <= most_items, label, ": ", items, " work items for teams; one launch has at most ", most_items);
}

}  // namespace shoal::kernels::portable
