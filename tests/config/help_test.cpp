// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "shoal/config/table.hpp"

namespace shoal::config {
namespace of_help_test {

using testing::HasSubstr;
using testing::Not;

/// Joins the lines and replaces each run of spaces by one, so that line breaks do not matter.
std::string flowing(const std::string& page) {
  std::istringstream words(page);
  std::string result;
  for (std::string word; words >> word;) result += word + " ";
  return result;
}

const CommandSpec train = {.name = "train", .summary = "train a model"};
const CommandSpec generate = {.name = "generate",
                              .summary = "continue a text",
                              .arguments = {"CHECKPOINT"},
                              .checks = false,
                              .own = {{"tokens", std::uint64_t{100}, "tokens", at_least(1), "how many to add"}}};

TEST(Help, FitsAPage) {
  std::istringstream lines(help(train));
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100U) << line;
    EXPECT_FALSE(line.ends_with(' ')) << line;
  }
}

TEST(Help, HasEveryOptionOnceInTheOrderOfTheTableAndThoseNotBuiltAtTheEnd) {
  const std::string page = help(train);
  const std::size_t absent = page.find("\nNot built yet\n");
  ASSERT_NE(absent, std::string::npos);
  std::size_t built_at = 0, absent_at = absent;
  for (const Row& row : table()) {
    std::size_t& at = row.built ? built_at : absent_at;
    const std::size_t found = page.find("  --" + row.name + " ", at);
    ASSERT_NE(found, std::string::npos) << row.name;
    EXPECT_EQ(found < absent, row.built) << row.name;
    EXPECT_EQ(page.find("  --" + row.name + " "), found) << row.name;
    at = found;
  }
  EXPECT_THAT(page, HasSubstr("\n[activation]\n"));
  EXPECT_THAT(page, HasSubstr("\n[nvme]\n"));
}

TEST(Help, NamesUnitRangeDefaultAndWhenToChangeIt) {
  const std::string page = flowing(help(train));
  EXPECT_THAT(
      page, HasSubstr("--model.n_layer transformer blocks (gpt), or hidden layers (mlp) [blocks, 1 to 1024; default 4] --"));
  EXPECT_THAT(page, HasSubstr("[threads, 1 to 4096, or auto; default auto]"));
  EXPECT_THAT(page, HasSubstr("[steps, at least 1; default 100]")) << "nobody makes 4294967295 steps";
  EXPECT_THAT(page, HasSubstr("[number, 0 to below 1; default 0.1]"));
  EXPECT_THAT(page, HasSubstr("[10^6 bytes, above 0; default 25]. Smaller messages start earlier"));
  EXPECT_THAT(page, HasSubstr("[auto, mpi, nccl; default auto]"));
  EXPECT_THAT(page, HasSubstr("[true or false; default false]"));
  EXPECT_THAT(page, HasSubstr("[bits: off, 8, 4; default off]"));
  EXPECT_THAT(page, HasSubstr("[ranks: off, node, or a whole number; default off]"));
}

TEST(Help, HasNoNumbersThatNobodyMeets) {
  EXPECT_THAT(help(train), Not(testing::ContainsRegex("[0-9][0-9][0-9][0-9][0-9][0-9]")));
}

TEST(Help, OfAnotherCommandPointsToThatOfTrain) {
  const std::string page = help(generate);
  EXPECT_THAT(page,
              HasSubstr("usage: shoal generate CHECKPOINT [--name=value ...] [--deepspeed FILE] [--section.name=value ...]\n"
                        "continue a text\n"));
  EXPECT_THAT(flowing(page), HasSubstr("--tokens how many to add [tokens, at least 1; default 100]"));
  EXPECT_THAT(page, HasSubstr("`shoal train --help` lists these options.\n"));
  EXPECT_THAT(page, Not(HasSubstr("--train.steps")));
  EXPECT_THAT(page, Not(HasSubstr("--dry-run")));
  EXPECT_THAT(help(train), HasSubstr("--dry-run"));
}

TEST(Help, AsMarkdownHasARowForEveryOption) {
  const std::string page = help_as_markdown(train);
  for (const Row& row : table()) EXPECT_THAT(page, HasSubstr("\n| `" + row.name + "` | ")) << row.name;
  EXPECT_THAT(page, HasSubstr("\n### [model]\n\n| option |"));
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("|")) continue;
    EXPECT_EQ(std::count(line.begin(), line.end(), '|'), 4) << line;
  }
}

}  // namespace of_help_test
}  // namespace shoal::config
