// SPDX-License-Identifier: Apache-2.0
// The memory that this process holds, as the system counts it.
#pragma once

#include <cstdint>

namespace shoal::app {

/// Largest resident set of this process so far, and the current one, in bytes.
std::uint64_t peak_rss_bytes();
std::uint64_t current_rss_bytes();

}  // namespace shoal::app
