// SPDX-License-Identifier: Apache-2.0
// Each deck in tests/refusals must be refused. Its comments contain the expected message and how the deck is read:
//     # expect: TEXT                 one line of the message, exactly; there is one such comment for each line
//     # ranks: 3                     (default 1)
//     # arguments: --train.steps=0   (default none)
//     # accept: 4: global = 8 | 7: lr = 1    with these lines in place of lines 4 and 7 it must be accepted
// Accepted values are those next to the refused ones, so that both sides of a border are tested. Comments that do not begin
// the file do not change the numbers of its lines.
// A .json file there is a DeepSpeed configuration with the same comments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "shoal/base/error.hpp"
#include "shoal/config/options.hpp"

namespace shoal::config {
namespace of_refusals_test {

namespace fs = std::filesystem;

struct Refusal {
  std::string deck, expected;
  int ranks = 1;
  std::vector<std::string> arguments;
  std::vector<std::string> lines;                                        // of the deck
  std::vector<std::vector<std::pair<std::size_t, std::string>>> accept;  // numbers of lines, from 1, and their new texts
};

fs::path folder() {
  const char* const source = std::getenv("SHOAL_SOURCE");
  return (source == nullptr ? fs::path(__FILE__).parent_path().parent_path() : fs::path(source) / "tests") / "refusals";
}

/// "4: global = 8 | 7: lr = 1".
std::vector<std::pair<std::size_t, std::string>> replacements(const std::string& all) {
  std::vector<std::pair<std::size_t, std::string>> found;
  std::istringstream each(all);
  for (std::string one; std::getline(each, one, '|');) {
    const std::size_t colon = one.find(':');
    found.emplace_back(std::stoul(one.substr(0, colon)), one.substr(colon + 1));
  }
  return found;
}

Refusal read_refusal(const std::string& deck) {
  Refusal refusal{deck, {}, 1, {}, {}, {}};
  std::ifstream file(folder() / deck);
  const auto rest_after = [](const std::string& line, const std::string& key) { return line.substr(key.size()); };
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with('\r')) line.pop_back();
    refusal.lines.push_back(line);
    const std::string expect = "# expect: ", ranks = "# ranks: ", arguments = "# arguments: ", accept = "# accept: ";
    if (line.starts_with(accept)) refusal.accept.push_back(replacements(rest_after(line, accept)));
    if (line.starts_with(expect)) refusal.expected += (refusal.expected.empty() ? "" : "\n") + rest_after(line, expect);
    if (line.starts_with(ranks)) refusal.ranks = std::stoi(rest_after(line, ranks));
    if (line.starts_with(arguments)) {
      std::istringstream words(rest_after(line, arguments));
      for (std::string word; words >> word;) refusal.arguments.push_back(word);
    }
  }
  return refusal;
}

std::vector<std::string> decks() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder())) {
    if (entry.path().extension() == ".cfg" || entry.path().extension() == ".json") names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> decks_with_borders() {
  std::vector<std::string> names = decks();
  std::erase_if(names, [](const std::string& deck) { return read_refusal(deck).accept.empty(); });
  return names;
}

/// Reads and checks the deck in the current directory.
void check(const Refusal& refusal) {
  std::vector<const char*> arguments = {refusal.deck.c_str()};
  if (refusal.deck.ends_with(".json")) arguments.insert(arguments.begin(), "--deepspeed");
  for (const std::string& argument : refusal.arguments) arguments.push_back(argument.c_str());
  Invocation invocation = parse({.name = "train", .summary = ""}, static_cast<int>(arguments.size()), arguments.data());
  validate(invocation, refusal.ranks);
}

class Refusals : public testing::TestWithParam<std::string> {};

TEST_P(Refusals, GiveTheirMessage) {
  const Refusal refusal = read_refusal(GetParam());
  ASSERT_FALSE(refusal.expected.empty()) << "no `# expect: ` line";
  fs::current_path(folder());  // so that the message names the deck by its name alone
  try {
    check(refusal);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bad_input);
    EXPECT_EQ(error.what(), refusal.expected);
  }
}

/// Of the decks that have `# accept: ` lines.
class Borders : public testing::TestWithParam<std::string> {};

TEST_P(Borders, AreAcceptedOnTheOtherSide) {
  const Refusal refusal = read_refusal(GetParam());
  const fs::path elsewhere = fs::temp_directory_path() / ("shoal-refusals-" + std::to_string(getpid()));
  fs::create_directories(elsewhere);
  for (const auto& changes : refusal.accept) {
    std::vector<std::string> lines = refusal.lines;
    for (const auto& [number, text] : changes) lines.at(number - 1) = text;
    std::ofstream file(elsewhere / refusal.deck);
    for (const std::string& line : lines) file << line << "\n";
    file.close();
    fs::current_path(elsewhere);
    EXPECT_NO_THROW(check(refusal)) << changes.front().second;
  }
  fs::current_path(folder());
  fs::remove_all(elsewhere);
}

std::string name_of(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Decks, Refusals, testing::ValuesIn(decks()), name_of);
INSTANTIATE_TEST_SUITE_P(Decks, Borders, testing::ValuesIn(decks_with_borders()), name_of);

TEST(RefusalDecks, AreThere) {
  EXPECT_THAT(decks(), testing::SizeIs(testing::Ge(25)));
  EXPECT_THAT(decks_with_borders(), testing::SizeIs(testing::Ge(30)));
}

}  // namespace of_refusals_test
}  // namespace shoal::config
