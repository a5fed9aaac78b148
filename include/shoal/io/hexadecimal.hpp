// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace shoal::io {

/// The form in which files and logs show checksums: 16 lower-case hexadecimal digits.
std::string hexadecimal(std::uint64_t checksum);

}  // namespace shoal::io
