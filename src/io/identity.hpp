// SPDX-License-Identifier: Apache-2.0
// What tells a run, a lock and a trace from all others: random digits, and the time.
#pragma once

#include <string>

namespace shoal::io {

/// 128 bits of the system's random numbers as 32 hexadecimal digits: no seed of the run has a part in them.
std::string random_digits();

/// "2025-03-14T15:09:26Z".
std::string utc_now();

}  // namespace shoal::io
