// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "shoal/config/table.hpp"

namespace shoal::config {
namespace {

using testing::HasSubstr;

/// Lines joined, runs of spaces made one: where a line is broken does not matter.
std::string flowing(const std::string& page) {
  std::istringstream words(page);
  std::string result;
  for (std::string word; words >> word;) result += word + " ";
  return result;
}

TEST(Help, FitsAPage) {
  std::istringstream lines(help({.name = "train", .summary = "train a model"}));
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100U) << line;
    EXPECT_FALSE(line.ends_with(' ')) << line;
  }
}

TEST(Help, HasEveryOptionUnderItsSection) {
  const std::string page = help();
  std::size_t at = 0;
  for (const Row& row : table()) {
    const std::size_t found = page.find("  --" + row.name + " ", at);
    ASSERT_NE(found, std::string::npos) << row.name;
    at = found;
  }
  for (const std::string& section : sections()) EXPECT_THAT(page, HasSubstr("\n[" + section + "]\n"));
}

TEST(Help, TellsUnitRangeAndDefault) {
  const std::string page = flowing(help());
  EXPECT_THAT(page, HasSubstr("--model.n_layer depth [blocks; whole numbers from 1 to 1024; default 4]"));
  EXPECT_THAT(page, HasSubstr("[threads per rank; auto, or whole numbers from 1 to 4096; default auto]"));
  EXPECT_THAT(page, HasSubstr("[mpi, nccl; default mpi] (not built yet: nccl)"));
  EXPECT_THAT(
      page,
      HasSubstr(
          "--activation.partition share kept activations out among the ranks [true, false; default false] (not built yet)"));
}

TEST(Help, OfACommandTellsWhatItTakes) {
  const CommandSpec generate = {.name = "generate",
                                .summary = "continue a text",
                                .arguments = {"CHECKPOINT"},
                                .options = false,
                                .checks = false,
                                .own = {{"tokens", std::uint64_t{100}, "tokens", at_least(1), "how many to add"}}};
  const std::string page = help(generate);
  EXPECT_THAT(page, HasSubstr("usage: shoal generate CHECKPOINT [--name=value ...]\ncontinue a text\n"));
  EXPECT_THAT(flowing(page), HasSubstr("--tokens how many to add [tokens; whole numbers of at least 1; default 100]"));
  EXPECT_THAT(page, Not(HasSubstr("--train.steps")));
  EXPECT_THAT(page, Not(HasSubstr("--dry-run")));
  EXPECT_THAT(help({.name = "train", .summary = ""}), HasSubstr("--dry-run"));
}

}  // namespace
}  // namespace shoal::config
