// SPDX-License-Identifier: Apache-2.0
#include "shoal/data/vocabulary.hpp"

#include <algorithm>
#include <unordered_map>

#include "shoal/base/error.hpp"

namespace shoal::data {

Vocabulary byte_vocabulary() {
  Vocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte) vocabulary.emplace_back(1, static_cast<char>(byte));
  return vocabulary;
}

std::string decode(const Vocabulary& vocabulary, Span<const std::int32_t> ids) {
  std::string result;
  for (const std::int32_t id : ids) {
    const bool known = id >= 0 && static_cast<std::size_t>(id) < vocabulary.size();
    result += known ? vocabulary[static_cast<std::size_t>(id)] : "\xEF\xBF\xBD";
  }
  return result;
}

std::vector<std::int32_t> encode(const Vocabulary& vocabulary, std::string_view text) {
  std::unordered_map<std::string_view, std::int32_t> ids;
  std::size_t longest = 0;
  for (std::size_t id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary[id].empty()) continue;
    ids.try_emplace(vocabulary[id], static_cast<std::int32_t>(id));
    longest = std::max(longest, vocabulary[id].size());
  }
  std::vector<std::int32_t> result;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = std::min(longest, text.size() - at);
    auto found = ids.end();
    while (length > 0 && (found = ids.find(text.substr(at, length))) == ids.end()) --length;
    require_input(length > 0, "text: no token of the vocabulary (", vocabulary.size(), " tokens) fits at byte ", at, ": \"",
                  text.substr(at, 8), "\"");
    result.push_back(found->second);
    at += length;
  }
  return result;
}

}  // namespace shoal::data
