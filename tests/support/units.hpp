// SPDX-License-Identifier: Apache-2.0
// Units of an invented model, for tests of code that works on their flat buffers.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "shoal/model/unit.hpp"

namespace shoal::test {

/// Returns units unit1, unit2, ... of these numbers of elements, without named tensors.
inline std::vector<model::UnitLayout> units_of(std::initializer_list<std::size_t> sizes) {
  std::vector<model::UnitLayout> units;
  for (const std::size_t size : sizes) {
    units.emplace_back();
    units.back().name = "unit" + std::to_string(units.size());
    units.back().elements = size;
  }
  return units;
}

}  // namespace shoal::test
