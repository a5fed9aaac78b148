// SPDX-License-Identifier: Apache-2.0
#include "shoal/device/taken.hpp"

#include <algorithm>

namespace shoal::device {

namespace {

std::vector<Taken>& all_taken() {
  static std::vector<Taken> list;
  return list;
}

}  // namespace

void add_taken(const std::string& by, std::uint64_t bytes) {
  const auto same = std::find_if(all_taken().begin(), all_taken().end(), [&](const Taken& taken) { return taken.by == by; });
  if (same == all_taken().end()) {
    all_taken().push_back({by, bytes});
  } else {
    same->bytes += bytes;
  }
}

void measure_taken(const std::string& by, const std::function<void()>& act) {
  const std::optional<std::uint64_t> before = unit_free_bytes();
  act();
  if (!before) return;
  const std::uint64_t after = unit_free_bytes().value_or(*before);
  add_taken(by, *before - std::min(*before, after));
}

const std::vector<Taken>& taken() { return all_taken(); }

}  // namespace shoal::device
