// SPDX-License-Identifier: Apache-2.0
// Finds the name for "did you mean ...?".
#include <algorithm>
#include <limits>
#include <utility>

#include "shoal/config/value.hpp"

namespace shoal::config {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return result;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Row i contains the distances between the first i characters of a and every prefix of b.
  std::vector<std::size_t> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = row[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) next[j] = std::min(next[j], before[j - 2] + 1);
    }
    std::swap(before, row);
    std::swap(row, next);
  }
  return row[b.size()];
}

std::string nearest(std::string_view written, const std::vector<std::string>& candidates) {
  constexpr std::size_t longest = 64;  // no name is longer, and comparing takes time
  if (written.empty() || written.size() > longest) return {};
  const std::size_t tolerated = std::max<std::size_t>(1, written.size() / 3);
  std::size_t least = std::numeric_limits<std::size_t>::max();
  std::string best;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(lower(written), lower(candidate));
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return least <= tolerated ? best : std::string();
}

}  // namespace shoal::config
