// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace shoal::plan {

/// Converts an index to the type that containers take. It must not be negative.
inline std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace shoal::plan
