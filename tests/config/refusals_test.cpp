// SPDX-License-Identifier: Apache-2.0
// Each deck in tests/refusals must be refused. Its comments contain the expected message and how the deck is read:
//     # expect: TEXT                 one line of the message, exactly; there is one such comment for each line
//     # ranks: 3                     (default 1)
//     # arguments: --train.steps=0   (default none)
// A .json file there is a DeepSpeed configuration with the same comments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "shoal/base/error.hpp"
#include "shoal/config/options.hpp"

namespace shoal::config {
namespace {

namespace fs = std::filesystem;

struct Refusal {
  std::string deck, expected;
  int ranks = 1;
  std::vector<std::string> arguments;
};

fs::path folder() {
  const char* const source = std::getenv("SHOAL_SOURCE");
  return (source == nullptr ? fs::path(__FILE__).parent_path().parent_path() : fs::path(source) / "tests") / "refusals";
}

Refusal read_refusal(const std::string& deck) {
  Refusal refusal{deck, {}, 1, {}};
  std::ifstream file(folder() / deck);
  const auto rest_after = [](const std::string& line, const std::string& key) { return line.substr(key.size()); };
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with('\r')) line.pop_back();
    const std::string expect = "# expect: ", ranks = "# ranks: ", arguments = "# arguments: ";
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

class Refusals : public testing::TestWithParam<std::string> {};

TEST_P(Refusals, GiveTheirMessage) {
  const Refusal refusal = read_refusal(GetParam());
  ASSERT_FALSE(refusal.expected.empty()) << "no `# expect: ` line";
  fs::current_path(folder());  // so that the message names the deck by its name alone
  std::vector<const char*> arguments = {refusal.deck.c_str()};
  if (refusal.deck.ends_with(".json")) arguments.insert(arguments.begin(), "--deepspeed");
  for (const std::string& argument : refusal.arguments) arguments.push_back(argument.c_str());
  try {
    Invocation invocation = parse({.name = "train", .summary = ""}, static_cast<int>(arguments.size()), arguments.data());
    validate(invocation, refusal.ranks);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bad_input);
    EXPECT_EQ(error.what(), refusal.expected);
  }
}

std::string name_of(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Decks, Refusals, testing::ValuesIn(decks()), name_of);

TEST(RefusalDecks, AreThere) { EXPECT_THAT(decks(), testing::SizeIs(testing::Ge(25))); }

}  // namespace
}  // namespace shoal::config
