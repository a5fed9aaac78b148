// SPDX-License-Identifier: Apache-2.0
#include "app/support/bytes_json.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "app/support/statistics.hpp"

namespace shoal::app {

nlohmann::ordered_json bytes_by_kind(const Ledger& ledger) {
  nlohmann::ordered_json result = nlohmann::ordered_json::object();
  for (const Kind kind : kinds) result[name_of(kind)] = ledger[kind];
  return result;
}

nlohmann::ordered_json json_number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json seconds_json(const std::vector<double>& seconds) {
  if (seconds.empty()) return {{"median", nullptr}, {"mean", nullptr}, {"min", nullptr}, {"max", nullptr}};
  const double mean = std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
  const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
  return {{"median", median(seconds)}, {"mean", mean}, {"min", *least}, {"max", *most}};
}

}  // namespace shoal::app
