// SPDX-License-Identifier: Apache-2.0
// What study.json and simulation.json say alike of a point.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "points.hpp"
#include "request.hpp"

namespace shoal::app {

/// ["strong", "weak"]
nlohmann::ordered_json json_of(const std::vector<Scaling>& scalings);
/// Its name, strategy, curves and ranks.
nlohmann::ordered_json json_of(const StudyPoint& point);

}  // namespace shoal::app
