// SPDX-License-Identifier: Apache-2.0
#include "shoal/model/gradient_order.hpp"

#include <algorithm>

namespace shoal::model {

GradientOrder gradients_of_forward(const UseOrder& uses, const std::vector<UnitLayout>& units, const Part& part) {
  GradientOrder order(uses.size() + 1);
  if (!part.units.empty() && part.units.end < units.size()) return order;
  std::vector<int>& of_head = order[uses.size() - 1];
  for (std::size_t unit = units.size(); unit-- > 0;) {
    of_head.push_back(static_cast<int>(unit));
    if (!units[unit].copy_of) return order;
  }
  return order;
}

GradientOrder gradients_of_backward(const UseOrder& uses, const Part& part) {
  GradientOrder order(uses.size() + 1);
  for (std::size_t use = 0; use < uses.size(); ++use) {
    const auto next = uses.begin() + static_cast<std::ptrdiff_t>(use) + 1;
    for (const int unit : uses[use]) {
      const auto has_unit = [&](const std::vector<int>& later) {
        return std::find(later.begin(), later.end(), unit) != later.end();
      };
      if (std::none_of(next, uses.end(), has_unit)) order[use].push_back(unit);
    }
  }
  if (part.units.empty() || part.units.begin == 0) order.back().push_back(0);
  return order;
}

}  // namespace shoal::model
