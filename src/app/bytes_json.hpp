// SPDX-License-Identifier: Apache-2.0
// Memory by kind, as all JSON files of the program have it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "shoal/base/memory.hpp"

namespace shoal::app {

/// {"parameters": BYTES, ...}: all kinds, in their order.
nlohmann::ordered_json bytes_by_kind(const Ledger& ledger);

}  // namespace shoal::app
