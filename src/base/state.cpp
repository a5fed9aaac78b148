// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/state.hpp"

namespace shoal {

std::string shape_text(const std::vector<std::size_t>& shape) {
  std::string result;
  for (const std::size_t extent : shape) result += (result.empty() ? "" : " x ") + std::to_string(extent);
  return result;
}

}  // namespace shoal
