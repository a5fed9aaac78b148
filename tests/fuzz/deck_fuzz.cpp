// SPDX-License-Identifier: Apache-2.0
// Any bytes as a deck: no crash, every problem with its place, and a good deck survives being printed and read again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "shoal/config/deck.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shoal::config;
  const Deck deck = parse_deck_text({reinterpret_cast<const char*>(data), size}, "fuzz.cfg");
  for (const std::string& problem : deck.problems) {
    if (!problem.starts_with("fuzz.cfg:")) std::abort();
  }
  if (!deck.problems.empty()) return 0;
  const std::string printed = print(deck.options);
  const Deck again = parse_deck_text(printed, "printed.cfg");
  if (!again.problems.empty() || print(again.options) != printed) std::abort();
  return 0;
}
