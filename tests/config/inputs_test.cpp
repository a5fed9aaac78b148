// SPDX-License-Identifier: Apache-2.0
// The decks that come with the program are accepted on 1 and 2 ranks (that of a pipeline on 2 alone), and are the same when
// printed and read again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "shoal/config/deck.hpp"
#include "shoal/config/options.hpp"

namespace shoal::config {
namespace of_inputs_test {

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
  if (run.options.data.source == "synthetic" && run.options.data.tokenizer == data::Tokenizer::chars)
    run.options.data.source = "text.txt";
  validate(run, ranks);
  return print(run.options);
}

TEST(Inputs, AreAcceptedAndSurvivePrinting) {
  std::size_t decks = 0;
  for (const auto& entry : fs::directory_iterator(folder())) {
    if (entry.path().extension() != ".cfg") continue;
    SCOPED_TRACE(entry.path());
    ++decks;
    for (const int ranks : {1, 2}) {
      const Deck deck = read_deck(entry.path());
      if (ranks < deck.options.pipeline.size) continue;
      const std::string first = resolved(deck, ranks);
      EXPECT_EQ(resolved(parse_deck_text(first, "printed.cfg"), ranks), first);
    }
  }
  EXPECT_GE(decks, 7U);
}

TEST(Inputs, TheDeepSpeedConfigurationGoesWithTheSmallestDeck) {
  const std::string deck = folder() / "tiny.cfg", json = folder() / "ds_config.json";
  for (const int ranks : {1, 2, 4}) {
    const std::vector<const char*> words = {deck.c_str(), "--deepspeed", json.c_str()};
    Invocation run = parse({.name = "train", .summary = ""}, static_cast<int>(words.size()), words.data());
    validate(run, ranks);
    EXPECT_EQ(run.options.zero.stage, 2);
    EXPECT_EQ(run.options.train.dtype, DType::bf16);
    EXPECT_EQ(run.options.batch.global, 8U);
    EXPECT_EQ(run.options.comm.bucket_mb, 20);
    EXPECT_EQ(run.options.optimizer.lr, 3e-3);
    EXPECT_TRUE(run.options.optimizer.decay_1d);
    EXPECT_THAT(run.not_built, testing::IsEmpty());
  }
}

}  // namespace of_inputs_test
}  // namespace shoal::config
