// SPDX-License-Identifier: Apache-2.0
// Numbers with their noun in singular or plural, for messages.
#pragma once

#include <string>

#include "shoal/base/error.hpp"

namespace shoal {

/// "1 node", "3 nodes".
template <typename Number>
std::string counted(Number number, const char* noun) {
  return text(number, ' ', noun, number == 1 ? "" : "s");
}

}  // namespace shoal
