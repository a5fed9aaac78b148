// SPDX-License-Identifier: Apache-2.0
// A hash of texts that is the same everywhere: ranks compare texts by it, and names of jobs contain it.
#pragma once

#include <cstdint>
#include <string_view>

namespace shoal {

/// FNV-1a. In contrast to std::hash it is the same for every build.
constexpr std::uint64_t hash_of(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

}  // namespace shoal
