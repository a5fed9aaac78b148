// SPDX-License-Identifier: Apache-2.0
// shoal generate: continues a text with a checkpoint's model.
#include "shoal/model/generate.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "app/checkpoint/from_checkpoint.hpp"
#include "app/support/command.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/printable.hpp"
#include "shoal/config/value.hpp"
#include "shoal/data/vocabulary.hpp"

namespace shoal::app {

namespace {

/// Number of bytes at the end of the text that begin a character but do not complete it: the next token may do so.
std::size_t incomplete_bytes(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(text.size(), 3); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if (byte < 0x80) return 0;
    if (byte >= 0xC0) return back < (byte >= 0xF0 ? 4U : byte >= 0xE0 ? 3U : 2U) ? back : 0;
  }
  return 0;
}

/// Prints tokens as they come: their bytes, or on a terminal whole characters with control characters escaped, since the
/// vocabulary may come from anywhere.
class TextPrinter {
 public:
  void add(const std::string& bytes) {
    pending_ += bytes;
    print(pending_.size() - (terminal_ ? incomplete_bytes(pending_) : 0));
  }
  void end() {
    print(pending_.size());
    std::fputs("\n", stdout);
  }

 private:
  void print(std::size_t bytes) {
    const std::string_view text = std::string_view(pending_).substr(0, bytes);
    const std::string shown = terminal_ ? printable(text, "\n\t") : std::string(text);
    std::fwrite(shown.data(), 1, shown.size(), stdout);
    std::fflush(stdout);
    pending_.erase(0, bytes);
  }

  bool terminal_ = ::isatty(STDOUT_FILENO) != 0;
  std::string pending_;
};

/// Every rank computes the same continuation by itself, and rank 0 prints it.
Exit generate(comm::World& world, config::Invocation& invocation) {
  const LoadedModel loaded(world, invocation, Purpose::generate);
  const data::Vocabulary& vocabulary = loaded.resolved().dataset.vocabulary;
  require_input(
      !vocabulary.empty(), "data.source = ", loaded.resolved().options.data.source,
      " has no vocabulary, so tokens cannot be printed as text; allowed: data.vocabulary = a tokens file that has one");
  model::GenerateOptions wanted;
  wanted.tokens = invocation.own<std::uint64_t>("tokens");
  wanted.temperature = invocation.own<double>("temperature");
  wanted.top_k = invocation.own<std::uint64_t>("top_k");
  wanted.seed = invocation.own<std::uint64_t>("seed");
  const std::string& prompt = invocation.own<std::string>("prompt");
  std::vector<std::int32_t> ids = data::encode(vocabulary, prompt);
  if (ids.empty()) ids.push_back(0);  // the model needs at least one token
  const bool prints = world.all().rank() == 0;
  TextPrinter printer;
  const auto print = [&](Span<const std::int32_t> tokens) {
    if (prints) printer.add(data::decode(vocabulary, tokens));
  };
  print(ids);
  model::generate(loaded.model(), loaded.resolved().options.model, ids, wanted, [&](std::int32_t token) {
    heartbeat::beat();
    print(Span<const std::int32_t>(&token, 1));
  });
  if (prints) printer.end();
  return Exit::done;
}

}  // namespace

Command generate_command() {
  using config::above;
  using config::any;
  using config::at_least;
  return {
      .spec = {.name = "generate",
               .summary = "continue a text with the model of a checkpoint, or of a run's newest one",
               .arguments = {"CHECKPOINT", "[DECK]"},
               .checks = false,
               .own = {{"prompt", std::string{}, "", any().as("text"),
                        "text to continue; default: the first token of the vocabulary"},
                       {"tokens", std::uint64_t{100}, "tokens", at_least(1), "number of tokens to add"},
                       {"temperature", 1.0, "", at_least(0), "logits are divided by it; 0: always take the likeliest token"},
                       {"top_k", std::uint64_t{0}, "tokens", at_least(0),
                        "choose among the k likeliest tokens; 0: among all"},
                       {"seed", std::uint64_t{1}, "", any(), "seed of the random choice of tokens"}}},
      .run = generate,
      .one_may_run = true};
}

}  // namespace shoal::app
