// SPDX-License-Identifier: Apache-2.0
#include "json.hpp"

#include <nlohmann/json.hpp>

namespace shoal::app {

using OrderedJson = nlohmann::ordered_json;

OrderedJson json_of(const std::vector<Scaling>& scalings) {
  OrderedJson names = OrderedJson::array();
  for (const Scaling scaling : scalings) names.push_back(name_of(scaling));
  return names;
}

OrderedJson json_of(const StudyPoint& point) {
  return {{"name", point.name},
          {"strategy", point.strategy},
          {"scalings", json_of(point.scalings)},
          {"nodes", point.grid.nodes},
          {"ranks_per_node", point.grid.ranks_per_node},
          {"ranks", point.grid.ranks()}};
}

}  // namespace shoal::app
