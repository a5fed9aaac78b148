// SPDX-License-Identifier: Apache-2.0
// Points of a study as JSON, for study.json and simulation.json.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "app/study/point.hpp"
#include "app/study/request.hpp"
#include "app/study/run_metrics.hpp"

namespace shoal::app {

/// ["strong", "weak"]
nlohmann::ordered_json json_of(const std::vector<Scaling>& scalings);
/// Its name, strategy, curves and ranks.
nlohmann::ordered_json json_of(const StudyPoint& point);
/// What the plan says of it.
nlohmann::ordered_json predicted_json(const StudyPoint& point);
/// Its options that are not the deck's.
nlohmann::ordered_json changed_options(const StudyPoint& point, const std::map<std::string, std::string>& deck);
/// What its run has measured: the final loss and the number of steps from the metrics, which have all parts of the run, the
/// rest from the summary. Null if the metrics have no step.
nlohmann::ordered_json measured_json(const nlohmann::ordered_json& summary, const RunMetrics& metrics,
                                     const StudyPoint& point);

}  // namespace shoal::app
