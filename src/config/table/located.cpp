// SPDX-License-Identifier: Apache-2.0
#include "shoal/config/located.hpp"

#include <cctype>
#include <vector>

#include "shoal/config/table.hpp"

namespace shoal::config {

namespace {

/// An option in a sentence, and where its name ends.
struct Mention {
  std::string name;
  std::size_t end;
};

bool is_of_a_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; }

/// The options in the sentence, in order, each only the first time.
std::vector<Mention> mentions(const std::string& sentence) {
  std::vector<Mention> found;
  for (std::size_t begin = 0; begin < sentence.size();) {
    std::size_t end = begin;
    while (end < sentence.size() && is_of_a_name(sentence[end])) ++end;
    const std::string word = sentence.substr(begin, end - begin);
    bool fresh = find(word) != nullptr;
    for (const Mention& earlier : found) fresh = fresh && earlier.name != word;
    if (fresh) found.push_back({word, end});
    begin = end == begin ? begin + 1 : end;
  }
  return found;
}

/// The end of the option with its value, " = VALUE" or " (VALUE)", if that follows the name.
std::size_t end_of_value(const std::string& sentence, std::size_t end) {
  const bool brackets = sentence.compare(end, 2, " (") == 0;
  if (!brackets && sentence.compare(end, 3, " = ") != 0) return end;
  const std::size_t stop = sentence.find_first_of(brackets ? ")" : " ,;:", end + 3);
  if (stop == std::string::npos) return sentence.size();
  return brackets ? stop + 1 : stop;
}

/// "line 3" if the sentence begins with another line of the same file, else the whole place.
std::string seen_from(const std::string& leading, const std::string& place) {
  const std::size_t colon = leading.rfind(':');
  const bool same_file = colon != std::string::npos && place.compare(0, colon + 1, leading, 0, colon + 1) == 0;
  return same_file ? "line " + place.substr(colon + 1) : place;
}

}  // namespace

std::string located(const std::string& sentence, const Places& places) {
  std::string leading, result;
  std::size_t copied = 0;
  for (const Mention& mention : mentions(sentence)) {
    const std::string place = places.of(mention.name);
    if (place.empty()) continue;
    if (leading.empty()) {
      leading = place;
    } else if (place != leading) {
      const std::size_t end = end_of_value(sentence, mention.end);
      result += sentence.substr(copied, end - copied) + " [" + seen_from(leading, place) + "]";
      copied = end;
    }
  }
  return (leading.empty() ? "" : leading + ": ") + result + sentence.substr(copied);
}

}  // namespace shoal::config
