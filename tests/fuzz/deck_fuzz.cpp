// SPDX-License-Identifier: Apache-2.0
// Reads any bytes as a deck. Every problem must name its place in the file, and a deck without problems must be the same
// after it was printed and read again.
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
