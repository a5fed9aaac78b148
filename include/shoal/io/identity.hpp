// SPDX-License-Identifier: Apache-2.0
// Identities of runs and locks, and times.
#pragma once

#include <string>

namespace shoal::io {

/// 128 random bits from the system as 32 hexadecimal digits; the run's seed has no influence on them.
std::string random_digits();

/// The time of now: "2025-03-14T15:09:26Z".
std::string utc_now();

}  // namespace shoal::io
