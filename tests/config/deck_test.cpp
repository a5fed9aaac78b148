// SPDX-License-Identifier: Apache-2.0
#include "shoal/config/deck.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace shoal::config {
namespace of_deck_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Deck good(std::string_view text) {
  Deck deck = parse_deck_text(text, "a.cfg");
  EXPECT_THAT(deck.problems, IsEmpty());
  return deck;
}

TEST(Deck, ReadsSectionsKeysAndComments) {
  const Deck deck = good(
      "# a head\n\n[model]\nn_layer = 3   # blocks\n  n_head=2\n[ train ]  # again\nsteps\t=\t7\t#\n"
      "[model]\ntied = false\n");
  EXPECT_EQ(deck.options.model.n_layer, 3U);
  EXPECT_EQ(deck.options.model.n_head, 2U);
  EXPECT_FALSE(deck.options.model.tied);
  EXPECT_EQ(deck.places.of("model.n_layer"), "a.cfg:4");
  EXPECT_EQ(deck.places.of("model.tied"), "a.cfg:9");
  EXPECT_EQ(deck.places.of("model.n_embd"), "");
}

TEST(Deck, NamesMayBeWrittenOutBeforeTheFirstSection) {
  EXPECT_EQ(good("train.steps = 12\n[model]\nn_layer = 1").options.train.steps, 12U);
}

TEST(Deck, AHashCommentsOnlyAfterWhiteSpace) {
  EXPECT_EQ(good("[data]\nsource = a#b.txt # a path\n").options.data.source, "a#b.txt");
  EXPECT_EQ(good("[data]\nsource = a\t#b.txt\n").options.data.source, "a");
  EXPECT_EQ(good("[data]\nval_source = # none\n").options.data.val_source, "");
  EXPECT_EQ(good("[data]\nval_source =#x\n").options.data.val_source, "") << "a # at the start of the value";
}

TEST(Deck, EqualsSignsBelongToTheValueAfterTheFirst) {
  EXPECT_EQ(good("[output]\ndir = runs/lr=3e-4\n").options.output.dir, "runs/lr=3e-4");
}

TEST(Deck, QuotesKeepWhatIsBetween) {
  EXPECT_EQ(good("[data]\nsource = \" a # b \"  # c\n").options.data.source, " a # b ");
  EXPECT_EQ(good(R"([data]
source = "\"\\\t\x41"
)")
                .options.data.source,
            "\"\\\tA");
  EXPECT_EQ(good("[data]\nval_source = \"\"\n").options.data.val_source, "");
  for (const char* const value : {"\"", "\"a", "\"a\\", "\"a\\\"", "\"\\x4\"", "\"\\xg0\"", "\"a\"b", "\"a\"#b"}) {
    EXPECT_THAT(parse_deck_text(std::string("[data]\nsource = ") + value, "a.cfg").problems,
                ElementsAre(HasSubstr("a.cfg:2: ")))
        << value;
  }
}

TEST(Deck, ToleratesWindowsLineEndsAndAByteOrderMark) {
  const Deck deck = good("\xef\xbb\xbf[train]\r\nsteps = 5\r\n\r\n[output]\r\ndir = a b\r\n");
  EXPECT_EQ(deck.options.train.steps, 5U);
  EXPECT_EQ(deck.options.output.dir, "a b");
}

TEST(Deck, TheLastLineNeedsNoEnd) { EXPECT_EQ(good("[train]\nsteps = 5").options.train.steps, 5U); }

TEST(Deck, AnEmptyOneIsAllDefaults) { EXPECT_EQ(list(good("").options), list(Options())); }

TEST(Deck, ADuplicateNamesBothLinesAndTheFirstStands) {
  const Deck deck = parse_deck_text("[train]\nsteps = 1\nsteps = 2\n", "a.cfg");
  EXPECT_THAT(deck.problems, ElementsAre("a.cfg:3: train.steps: set twice, first in line 2"));
  EXPECT_EQ(deck.options.train.steps, 1U);
}

TEST(Deck, BinaryFilesAreNoDecks) {
  EXPECT_THAT(parse_deck_text(std::string_view("\x89HDF\r\n\0\0", 8), "x.h5").problems,
              ElementsAre(HasSubstr("x.h5: not a deck")));
}

TEST(Deck, MessagesHoldNoControlCharactersAndNoLongLines) {
  const std::string junk = "\x1b[2J" + std::string(5000, 'y');
  const Deck deck = parse_deck_text(junk + "\n[train]\nsteps = " + junk, "a.cfg");
  ASSERT_EQ(deck.problems.size(), 2U);
  for (const std::string& problem : deck.problems) {
    EXPECT_LT(problem.size(), 300U);
    EXPECT_EQ(problem.find('\x1b'), std::string::npos);
  }
}

TEST(Deck, HoldsOptionsOfACommandWithTheirSection) {
  const std::vector<CommandSpec::Own> own = {{"study.nodes", std::string{}, "", any(), "a list"},
                                             {"study.repeats", std::uint64_t{1}, "", at_least(1), "runs"},
                                             {"retry", false, "", any(), "of the command line only"}};
  const std::string text = "[study]\nnodes = 1,2 # a list\nrepeats = 3\n[train]\nsteps = 7\n";
  const Deck deck = parse_deck_text(text, "a.cfg", own);
  EXPECT_THAT(deck.problems, IsEmpty());
  EXPECT_EQ(std::get<std::string>(deck.own.at("study.nodes")), "1,2");
  EXPECT_EQ(std::get<std::uint64_t>(deck.own.at("study.repeats")), 3U);
  EXPECT_EQ(deck.places.of("study.repeats"), "a.cfg:3");
  EXPECT_EQ(deck.options.train.steps, 7U);
  EXPECT_THAT(parse_deck_text(text, "a.cfg").problems, ElementsAre(HasSubstr("a.cfg:1: [study]: unknown section")));

  const std::string wrong = "retry = true\n[study]\nnode = 1\nrepeats = 0\nrepeats = 2\n";
  EXPECT_THAT(parse_deck_text(wrong, "a.cfg", own).problems,
              ElementsAre(HasSubstr("a.cfg:1: retry: unknown option"),
                          HasSubstr("a.cfg:3: study.node: unknown option; did you mean study.nodes?"),
                          HasSubstr("a.cfg:4: study.repeats = 0"), HasSubstr("a.cfg:5: study.repeats: set twice")));
}

TEST(DeckFile, NamesWhatCannotBeRead) {
  EXPECT_THAT(read_deck("/nowhere/a.cfg").problems,
              ElementsAre("/nowhere/a.cfg: no such file; expected the path of a deck"));
  const std::string folder = std::filesystem::temp_directory_path();
  EXPECT_THAT(read_deck(folder).problems, ElementsAre(folder + ": not a file; expected the path of a deck"));
}

}  // namespace of_deck_test
}  // namespace shoal::config
