// SPDX-License-Identifier: Apache-2.0
#include "app/checkpoint/checkpoint_text.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "app/checkpoint/checkpoint_state.hpp"
#include "app/checkpoint/progress.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/names.hpp"
#include "shoal/base/notation.hpp"
#include "shoal/config/deck.hpp"
#include "shoal/config/table.hpp"

namespace shoal::app {

namespace {

/// Those of one node, if nodes differ.
std::size_t parameters_of(const io::CheckpointContents& contents) {
  const std::string common = "/parameters/", of_a_node = io::node_dataset(0, common);
  std::size_t elements = 0;
  for (const io::CheckpointDataset& dataset : contents.datasets) {
    if (dataset.name.starts_with(common) || dataset.name.starts_with(of_a_node)) elements += dataset.elements();
  }
  return elements;
}

std::string model_text(const model::ModelOptions& o) {
  return text(name_of(o.kind), ", ", counted(o.n_layer, "layer"), ", ",
              o.kind == model::ModelKind::gpt ? counted(o.n_head, "head") + ", " : "", "width ", o.n_embd, ", ",
              o.block_size, " positions, vocabulary of ", o.vocab_size);
}

std::string tokens_text(const Progress& progress, std::int64_t step, const std::optional<config::Options>& options) {
  if (progress.tokens) return grouped(static_cast<std::size_t>(*progress.tokens));
  if (!options) return "unknown";
  return grouped(static_cast<std::size_t>(step) * options->batch.global * options->model.block_size) +
         " (steps x batch; the file does not say)";
}

std::string loss_text(const Progress& progress) {
  std::string words;
  const auto add = [&](const std::string& part) { words += (words.empty() ? "" : "; ") + part; };
  const auto at = [](const LossAt& evaluated) { return text(fixed(evaluated.loss, 4), " after step ", evaluated.step); };
  if (progress.validation) add("validation " + at(*progress.validation));
  if (progress.best && (!progress.validation || progress.best->step != progress.validation->step))
    add("lowest " + at(*progress.best));
  if (progress.training) add("training " + fixed(*progress.training, 4));
  return words.empty() ? "not in the file" : words;
}

std::string complete_text(const io::CheckpointContents& contents, bool verified) {
  const std::string tensors = counted(contents.datasets.size(), "tensor");
  return verified ? text("yes: all ", tensors, " were read back, and their checksums agree")
                  : text("yes, by its seal; the checksums of its ", tensors, " were not compared (--verify)");
}

std::string run_text(const io::Lineage& lineage) {
  if (lineage.run.empty()) return "unknown (written by an older program)";
  return text(io::short_name(lineage.run), ", started ", lineage.started,
              lineage.ancestors.empty() ? "" : ", which went on from " + io::print(lineage.ancestors));
}

}  // namespace

std::string strategy_text(const config::Options& options) {
  std::string words = text("stage ", options.zero.stage);
  constexpr std::array telling = {"zero.", "pipeline.", "sync.", "offload."};
  const auto defaults = config::list(config::Options{}), values = config::list(options);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto& [name, value] = values[i];
    const bool tells =
        std::any_of(telling.begin(), telling.end(), [&](const char* section) { return name.starts_with(section); });
    if (tells && name != "zero.stage" && value != defaults[i].second) words += text(", ", name, " = ", value);
  }
  return words;
}

TextRows checkpoint_rows(const io::CheckpointContents& contents, bool verified) {
  const io::CheckpointState& state = contents.state;
  const config::Deck deck = config::parse_deck_text(state.deck, "deck");
  const auto options = deck.problems.empty() ? std::optional(deck.options) : std::nullopt;
  const Progress progress = progress_of(state.numbers);
  TextRows rows;
  if (options) rows.emplace_back("model", model_text(options->model));
  rows.emplace_back("parameters", grouped(parameters_of(contents)));
  rows.emplace_back("step", options ? text(state.step, " of ", options->train.steps) : std::to_string(state.step));
  rows.emplace_back("tokens seen", tokens_text(progress, state.step, options));
  rows.emplace_back("loss", loss_text(progress));
  if (options) {
    rows.emplace_back("trained in", text(name_of(options->train.dtype), "; the file holds fp32"));
    rows.emplace_back("strategy", strategy_text(*options));
    rows.emplace_back("optimizer", text(name_of(options->optimizer.kind), ", learning rate ", options->optimizer.lr));
    rows.emplace_back("data", options->data.source);
  } else {
    rows.emplace_back("options", "not those of this version: " + deck.problems.front());
  }
  const auto ranks = state.scalars.find(ranks_text);
  if (ranks != state.scalars.end()) rows.emplace_back("ranks", ranks->second);
  rows.emplace_back("run", run_text(state.lineage));
  rows.emplace_back("written by", text(contents.state.program, ", format ", contents.format_version));
  rows.emplace_back("size", bytes_text(contents.file_bytes));
  rows.emplace_back("complete", complete_text(contents, verified));
  rows.emplace_back("more", "--all: every tensor, and all options");
  return rows;
}

}  // namespace shoal::app
