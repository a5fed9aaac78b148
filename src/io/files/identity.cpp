// SPDX-License-Identifier: Apache-2.0
#include "shoal/io/identity.hpp"

#include <array>
#include <cstdio>
#include <ctime>
#include <random>

namespace shoal::io {

std::string random_digits() {
  std::random_device device;
  std::string digits;
  for (int i = 0; i < 4; ++i) {
    std::array<char, 9> eight{};
    std::snprintf(eight.data(), eight.size(), "%08x", static_cast<unsigned>(device()));
    digits += eight.data();
  }
  return digits;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> buffer{};
  return {buffer.data(), std::strftime(buffer.data(), buffer.size(), "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

}  // namespace shoal::io
