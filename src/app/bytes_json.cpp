// SPDX-License-Identifier: Apache-2.0
#include "bytes_json.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

namespace shoal::app {

nlohmann::ordered_json bytes_by_kind(const Ledger& ledger) {
  nlohmann::ordered_json result = nlohmann::ordered_json::object();
  for (const Kind kind : kinds) result[name_of(kind)] = ledger[kind];
  return result;
}

nlohmann::ordered_json json_number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

}  // namespace shoal::app
