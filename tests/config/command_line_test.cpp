// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>

#include "shoal/base/error.hpp"
#include "shoal/config/options.hpp"

namespace shoal::config {
namespace of_command_line_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const CommandSpec train = {.name = "train", .summary = "train a model"};
const CommandSpec generate = {.name = "generate",
                              .summary = "continue a text",
                              .arguments = {"CHECKPOINT"},
                              .options = false,
                              .checks = false,
                              .own = {{"prompt", std::string("\n"), "", any(), "text to continue"},
                                      {"tokens", std::uint64_t{100}, "tokens", at_least(1), "how many to add"},
                                      {"temperature", 1.0, "", at_least(0), "of the distribution"},
                                      {"greedy", false, "", any(), "the likeliest token"}}};

Invocation parsed(const CommandSpec& command, std::initializer_list<const char*> words) {
  return parse(command, static_cast<int>(words.size()), words.begin());
}

std::string refusal(const CommandSpec& command, std::initializer_list<const char*> words) {
  try {
    parsed(command, words);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bad_input);
    EXPECT_EQ(error.seen(), Seen::everywhere);
    return error.what();
  }
  return "accepted";
}

class WithDeck : public testing::Test {
 protected:
  void SetUp() override { std::ofstream(path_) << "[train]\nsteps = 20\nseed = 7\n[model]\nn_layer = 2\n"; }
  void TearDown() override { std::filesystem::remove(path_); }
  std::string path_ = std::filesystem::temp_directory_path() / ("shoal-deck-" + std::to_string(getpid()) + ".cfg");
};

TEST_F(WithDeck, TheCommandLineGoesBeforeTheDeckAndTheDeckBeforeTheDefaults) {
  const Invocation run = parsed(train, {"--train.steps=30", path_.c_str(), "--optimizer.lr", "3e-4"});
  EXPECT_EQ(run.deck, path_);
  EXPECT_EQ(run.options.train.steps, 30U);
  EXPECT_EQ(run.options.train.seed, 7U);
  EXPECT_EQ(run.options.optimizer.lr, 3e-4);
  EXPECT_EQ(run.options.model.n_head, 4U);
  EXPECT_EQ(run.places.of("train.steps"), "command line");
  EXPECT_EQ(run.places.of("train.seed"), path_ + ":3");
  EXPECT_EQ(run.places.of("model.n_head"), "");
}

TEST_F(WithDeck, ASwitchAloneLeavesTheDeckADeck) {
  const Invocation run = parsed(train, {"--output.overwrite", path_.c_str(), "--model.tied=false"});
  EXPECT_TRUE(run.options.output.overwrite);
  EXPECT_FALSE(run.options.model.tied);
  EXPECT_EQ(run.deck, path_);
  EXPECT_FALSE(parsed(train, {"--model.tied", "false", path_.c_str()}).options.model.tied);
}

TEST_F(WithDeck, ItsErrorsAndThoseOfTheCommandLineComeTogether) {
  std::ofstream(path_) << "[train]\nsteps = ten\n";
  EXPECT_EQ(refusal(train, {path_.c_str(), "--train.stepz=3", "--batch.micro=0"}),
            path_ +
                ":2: train.steps = ten: not a whole number; allowed: whole numbers from 1 to 4294967295\n"
                "command line: train.stepz: unknown option; did you mean train.steps?\n"
                "command line: batch.micro = 0: out of range; allowed: whole numbers from 1 to 4294967295");
}

TEST(CommandLine, ADeckMayBeLeftOut) { EXPECT_EQ(list(parsed(train, {}).options), list(Options())); }

TEST(CommandLine, HasChecks) {
  const Invocation run = parsed(train, {"--dry-run", "--print-config", "--ranks", "4"});
  EXPECT_TRUE(run.dry_run);
  EXPECT_TRUE(run.print_config);
  EXPECT_EQ(run.ranks, 4);
  EXPECT_THAT(refusal(train, {"--ranks=0"}),
              HasSubstr("command line: ranks = 0: out of range; allowed: whole numbers from 1"));
}

TEST(CommandLine, KnowsNoAbbreviations) {
  EXPECT_EQ(refusal(train, {"--train.step=3"}), "command line: train.step: unknown option; did you mean train.steps?");
  EXPECT_THAT(refusal(train, {"--dry"}), HasSubstr("command line: dry: unknown option"));
  EXPECT_EQ(refusal(train, {"--dryrun"}), "command line: dryrun: unknown option; did you mean --dry-run?");
}

TEST(CommandLine, HasNoNegativeCounts) {
  EXPECT_THAT(refusal(train, {"--train.seed", "-1"}), HasSubstr("train.seed = -1: negative"));
  EXPECT_THAT(refusal(train, {"--train.seed=-1"}), HasSubstr("train.seed = -1: negative"));
}

TEST(CommandLine, AnUnknownOptionsValueIsNotTakenForTheDeck) {
  EXPECT_EQ(refusal(train, {"--train.stepz", "3"}), "command line: train.stepz: unknown option; did you mean train.steps?");
}

TEST(CommandLine, SaysWhatIsWrongWithTheForm) {
  EXPECT_EQ(refusal(train, {"--train.steps"}), "command line: train.steps: no value; expected --name=value");
  EXPECT_THAT(refusal(train, {"--output.dir="}), HasSubstr("command line: output.dir: no value after ="));
  EXPECT_EQ(refusal(train, {"--train.steps=1", "--train.steps=2"}), "command line: train.steps: given twice");
  EXPECT_THAT(refusal(train, {"-n", "3"}), HasSubstr("command line: n: unknown option"));
}

TEST(CommandLine, CountsItsArguments) {
  EXPECT_EQ(refusal(train, {"a.cfg", "b.cfg"}), "command line: 2 arguments, expected 0 to 1: shoal train [DECK]");
  EXPECT_EQ(refusal(generate, {}), "command line: 0 arguments, expected 1: shoal generate CHECKPOINT");
  const CommandSpec tokenize = {
      .name = "tokenize", .summary = "", .arguments = {"INPUT...", "OUT.h5"}, .options = false, .checks = false};
  EXPECT_EQ(refusal(tokenize, {"a.txt"}), "command line: 1 argument, expected at least 2: shoal tokenize INPUT... OUT.h5");
  EXPECT_THAT(parsed(tokenize, {"a.txt", "b.txt", "c.h5"}).arguments, ElementsAre("a.txt", "b.txt", "c.h5"));
}

TEST_F(WithDeck, MayFollowAnotherArgument) {
  const CommandSpec eval = {.name = "eval", .summary = "", .arguments = {"CHECKPOINT", "[DECK]"}};
  const Invocation with = parsed(eval, {"a.h5", path_.c_str(), "--data.source=b.txt"});
  EXPECT_THAT(with.arguments, ElementsAre("a.h5"));
  EXPECT_EQ(with.deck, path_);
  EXPECT_EQ(with.options.train.steps, 20U);
  const Invocation without = parsed(eval, {"a.h5"});
  EXPECT_THAT(without.arguments, ElementsAre("a.h5"));
  EXPECT_THAT(without.deck, IsEmpty());
}

TEST(CommandLine, GivesACommandItsOwnOptions) {
  const Invocation run = parsed(generate, {"a.h5", "--prompt", "To be # or", "--tokens=40", "--greedy"});
  EXPECT_THAT(run.arguments, ElementsAre("a.h5"));
  EXPECT_EQ(run.own<std::string>("prompt"), "To be # or");
  EXPECT_EQ(run.own<std::uint64_t>("tokens"), 40U);
  EXPECT_EQ(run.own<double>("temperature"), 1.0);
  EXPECT_TRUE(run.own<bool>("greedy"));
  EXPECT_EQ(refusal(generate, {"a.h5", "--tokens=0"}),
            "command line: tokens = 0: out of range; allowed: whole numbers of at least 1");
  EXPECT_EQ(refusal(generate, {"a.h5", "--token=1"}), "command line: token: unknown option; did you mean --tokens?");
  EXPECT_EQ(refusal(generate, {"a.h5", "--train.steps=1"}),
            "command line: train.steps: unknown option; allowed: --greedy, --help, --prompt, --temperature, --tokens");
}

TEST(CommandLine, HelpLooksAtNothingElse) {
  EXPECT_TRUE(parsed(train, {"/nowhere/a.cfg", "--help"}).help);
  EXPECT_TRUE(parsed(generate, {"--help"}).help);
  EXPECT_FALSE(parsed(train, {"--help"}).help_as_markdown);
  EXPECT_TRUE(parsed(train, {"--help=markdown"}).help_as_markdown);
  EXPECT_EQ(refusal(train, {"--help=html"}), "command line: help = html: no such form; allowed: markdown");
}

TEST(CommandLine, NamesWhatIsNotBuilt) {
  const Invocation run = parsed(train, {"--zero.tile_linear=2", "--activation.partition", "--activation.offload=false"});
  EXPECT_THAT(run.not_built, testing::UnorderedElementsAre("zero.tile_linear", "activation.partition"));
  EXPECT_THAT(parsed(train, {"--zero.tile_linear=1", "--train.dtype=bf16"}).not_built, IsEmpty());
}

}  // namespace of_command_line_test
}  // namespace shoal::config
