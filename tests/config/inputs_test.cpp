// SPDX-License-Identifier: Apache-2.0
// The decks that come with the program: accepted on 1 and 2 ranks, and the same when printed and read again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "shoal/config/deck.hpp"
#include "shoal/config/options.hpp"

namespace shoal::config {
namespace {

namespace fs = std::filesystem;

fs::path folder() {
  const char* const source = std::getenv("SHOAL_SOURCE");
  return (source == nullptr ? fs::path(__FILE__).parent_path().parent_path().parent_path() : fs::path(source)) / "inputs";
}

std::string resolved(const Deck& deck, int ranks) {
  EXPECT_THAT(deck.problems, testing::IsEmpty());
  Invocation run;
  run.options = deck.options;
  run.places = deck.places;
  if (run.options.data.source == "synthetic" && run.options.data.tokenizer == "chars") run.options.data.source = "text.txt";
  validate(run, ranks);
  return print(run.options);
}

TEST(Inputs, AreAcceptedAndSurvivePrinting) {
  std::size_t decks = 0;
  for (const auto& entry : fs::directory_iterator(folder())) {
    SCOPED_TRACE(entry.path());
    ++decks;
    for (const int ranks : {1, 2}) {
      const std::string first = resolved(read_deck(entry.path()), ranks);
      EXPECT_EQ(resolved(parse_deck_text(first, "printed.cfg"), ranks), first);
    }
  }
  EXPECT_GE(decks, 7U);
}

}  // namespace
}  // namespace shoal::config
