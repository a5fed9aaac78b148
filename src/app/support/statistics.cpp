// SPDX-License-Identifier: Apache-2.0
#include "app/support/statistics.hpp"

#include <algorithm>

namespace shoal::app {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace shoal::app
