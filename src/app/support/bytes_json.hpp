// SPDX-License-Identifier: Apache-2.0
// Memory by kind, and numbers, as all JSON files of the program have them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "shoal/base/memory.hpp"

namespace shoal::app {

/// {"parameters": BYTES, ...}: all kinds, in their order.
nlohmann::ordered_json bytes_by_kind(const Ledger& ledger);

/// The number; null if it is not finite, since JSON has no NaN.
nlohmann::ordered_json json_number(double value);

/// {"median", "mean", "min", "max"} of the values; nulls if there is none.
nlohmann::ordered_json seconds_json(const std::vector<double>& seconds);

}  // namespace shoal::app
