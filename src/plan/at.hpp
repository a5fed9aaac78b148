// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace shoal::plan {

/// An index, which is never negative, as containers want it.
inline std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace shoal::plan
