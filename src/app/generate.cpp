// SPDX-License-Identifier: Apache-2.0
// shoal generate: text continued by a checkpoint's model.
#include "shoal/model/generate.hpp"

#include <cstdio>

#include "commands.hpp"
#include "from_checkpoint.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/config/value.hpp"
#include "shoal/data/vocabulary.hpp"

namespace shoal::app {

namespace {

/// Every rank computes the same continuation, so that none waits for another; rank 0 prints.
Exit generate(comm::World& world, config::Invocation& invocation) {
  const LoadedModel loaded(world, invocation, Purpose::generate);
  const data::Vocabulary& vocabulary = loaded.setup().dataset.vocabulary;
  require_input(!vocabulary.empty(), "data.source = ", loaded.setup().options.data.source,
                " brings no vocabulary, so tokens cannot become text; data.vocabulary names a tokens file that has one");
  model::GenerateOptions wanted;
  wanted.tokens = invocation.own<std::uint64_t>("tokens");
  wanted.temperature = invocation.own<double>("temperature");
  wanted.top_k = invocation.own<std::uint64_t>("top_k");
  wanted.seed = invocation.own<std::uint64_t>("seed");
  const std::string& prompt = invocation.own<std::string>("prompt");
  std::vector<std::int32_t> ids = data::encode(vocabulary, prompt);
  if (ids.empty()) ids.push_back(0);  // something must come first
  const bool speaks = world.all().rank() == 0;
  const auto say = [&](Span<const std::int32_t> tokens) {
    if (!speaks) return;
    std::fputs(data::decode(vocabulary, tokens).c_str(), stdout);
    std::fflush(stdout);
  };
  say(ids);
  model::generate(loaded.model(), loaded.setup().options.model, ids, wanted, [&](std::int32_t token) {
    heartbeat::beat();
    say(Span<const std::int32_t>(&token, 1));
  });
  if (speaks) std::fputs("\n", stdout);
  return Exit::done;
}

}  // namespace

Command generate_command() {
  using config::above;
  using config::any;
  using config::at_least;
  return {{.name = "generate",
           .summary = "continue a text with a checkpoint's model",
           .arguments = {"CHECKPOINT", "[DECK]"},
           .checks = false,
           .own = {{"prompt", std::string{}, "", any().as("text"),
                    "what is continued; empty: the first token of the vocabulary"},
                   {"tokens", std::uint64_t{100}, "tokens", at_least(1), "how many are added"},
                   {"temperature", 1.0, "", at_least(0), "logits are divided by it; 0: always the likeliest token"},
                   {"top_k", std::uint64_t{0}, "tokens", at_least(0), "draw from the k likeliest only; 0: from all"},
                   {"seed", std::uint64_t{1}, "", any(), "of the draws"}}},
          generate};
}

}  // namespace shoal::app
