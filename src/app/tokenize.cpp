// SPDX-License-Identifier: Apache-2.0
// shoal tokenize: turns text files into a tokens file.
#include "shoal/data/tokenize.hpp"

#include <cstdio>

#include "app/support/collective.hpp"
#include "app/support/command.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/config/value.hpp"

namespace shoal::app {

namespace {

Exit tokenize(comm::World& world, config::Invocation& invocation) {
  const std::vector<std::string>& arguments = invocation.arguments;
  require_input(arguments.size() >= 2, "tokenize needs one or more INPUT files and then the OUTPUT file");
  const std::vector<std::string> inputs(arguments.begin(), arguments.end() - 1);
  on_rank_0(world.all(), [&] {
    const data::TokenizeCounts counts =
        data::tokenize(inputs, invocation.own_named<data::Tokenizer>("tokenizer"), invocation.own<std::string>("vocabulary"),
                       arguments.back(), invocation.options.output.overwrite);
    std::printf("%s: %zu tokens, a vocabulary of %zu, from %zu bytes in %s\n", arguments.back().c_str(), counts.tokens,
                counts.vocab_size, counts.bytes, counted(counts.files, "file").c_str());
  });
  return Exit::done;
}

}  // namespace

Command tokenize_command() {
  return {.spec = {.name = "tokenize",
                   .summary = "turn text files into a tokens file",
                   .arguments = {"INPUT...", "OUTPUT"},
                   .options = false,
                   .checks = false,
                   .own = {{"tokenizer", std::string("bytes"), "", config::one_of(names<data::Tokenizer>()),
                            "what becomes a token: every byte or every character of a text; raw: every byte of any file"},
                           {"vocabulary", std::string{}, "", config::any().as("the path of a tokens file"),
                            "use the vocabulary of this file; default: the text's own"},
                           // The only option of a section that this command takes.
                           {"output.overwrite", false, "", config::any(), "replace OUTPUT, if it is a tokens file"}}},
          .run = tokenize,
          .alone = true};
}

}  // namespace shoal::app
