// SPDX-License-Identifier: Apache-2.0
// shoal info: describes a checkpoint, a trace or a tokens file.
#include <cstdio>

#include "app/checkpoint/checkpoint_text.hpp"
#include "app/checkpoint/newest.hpp"
#include "app/support/collective.hpp"
#include "app/support/command.hpp"
#include "app/support/text_table.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/notation.hpp"
#include "shoal/base/printable.hpp"
#include "shoal/base/state.hpp"
#include "shoal/io/checkpoint.hpp"
#include "shoal/io/file_kind.hpp"
#include "shoal/io/live_file.hpp"
#include "shoal/io/token_file.hpp"
#include "shoal/io/trace_file.hpp"

namespace shoal::app {

namespace {

std::string checksums_text(bool has, bool verify) {
  if (!has) return "none in the file";
  return verify ? "read back, all agree" : "not read (--verify reads them)";
}

std::string run_text(const io::Lineage& lineage) {
  return lineage.run.empty() ? "unknown (written by an older program)" : text(lineage.run, ", started ", lineage.started);
}

/// all: every tensor, every number and all options.
void describe_checkpoint(const std::string& file, bool verify, bool all) {
  const io::CheckpointContents contents = verify ? io::verify_checkpoint(file) : io::describe_checkpoint(file);
  if (!all) {
    print_table("checkpoint " + file, checkpoint_rows(contents, verify));
    return;
  }
  TextRows rows = {{"step", std::to_string(contents.state.step)}, {"written by", contents.state.program},
                   {"run", run_text(contents.state.lineage)},     {"format", std::to_string(contents.format_version)},
                   {"size", bytes_text(contents.file_bytes)},     {"checksums", checksums_text(true, verify)}};
  if (const auto& before = contents.state.lineage.ancestors; !before.empty()) {
    rows.emplace_back("lineage", io::print(before));
  }
  for (const auto& [name, value] : contents.state.scalars) rows.emplace_back(name, value);
  for (const auto& [name, value] : contents.state.numbers) rows.emplace_back(name, text(value));
  print_table("checkpoint " + file, rows);
  TextRows datasets;
  for (const auto& dataset : contents.datasets) {
    datasets.emplace_back(dataset.name, text(shape_text(dataset.shape), "  checksum ", io::hexadecimal(dataset.checksum)));
  }
  print_table("datasets (float32)", datasets);
  std::printf("# deck\n%s", printable(contents.state.deck, "\n\t").c_str());
}

/// Of which queues there are rows, beside those of the host.
std::string queues_text(const io::TraceContents& contents) {
  std::string all;
  for (const std::string& name : contents.queues) all += (all.empty() ? "" : ", ") + printable(name);
  if (contents.queues.empty()) return "none: the host computed";
  return text(all, "; ", counted(contents.untimed_spans, "piece"), " of their work not timed");
}

void describe_trace(const std::string& file, bool verify) {
  const io::TraceContents contents = io::describe_trace(file, verify);
  print_table(
      "trace " + file,
      {{"started", contents.started},
       {"written by", contents.version},
       {"format", std::to_string(contents.format_version)},
       {"ranks", text(contents.world_size, " on ", counted(contents.nodes, "node"))},
       {"level", contents.level},
       {"complete", contents.complete ? "yes" : "no: the run failed, was killed, or is still going"},
       {"events", text(contents.events, " in ", counted(contents.flushes, "write"), ", ", contents.dropped, " dropped")},
       {"queues", queues_text(contents)},
       {"size", bytes_text(contents.file_bytes)},
       {"checksums", checksums_text(contents.sealed, verify)}});
}

void describe_tokens(const std::string& file, bool verify) {
  const io::TokenFile tokens(file);
  const bool has_checksum = verify && tokens.verify();
  print_table("tokens file " + file,
              {{tokens.row_length() == 0 ? "tokens" : "samples",
                tokens.row_length() == 0 ? std::to_string(tokens.size())
                                         : text(tokens.size(), " of ", tokens.row_length(), " tokens")},
               {"vocab_size", std::to_string(tokens.vocab_size())},
               {"vocabulary", tokens.vocabulary().empty() ? "not included" : "included"},
               {"checksums", checksums_text(!verify || has_checksum, verify)}});
}

Exit info(comm::World& world, config::Invocation& invocation) {
  const bool verify = invocation.own<bool>("verify"), all = invocation.own<bool>("all");
  on_rank_0(world.all(), [&] {
    const std::string file = checkpoint_of(invocation.arguments.at(0)).string();
    io::FileKind kind{};
    io::read_live(file, [&] { kind = io::file_kind(file); });
    switch (kind) {
      case io::FileKind::checkpoint: return describe_checkpoint(file, verify, all);
      case io::FileKind::trace: return io::read_live(file, [&] { describe_trace(file, verify); });
      case io::FileKind::tokens: return describe_tokens(file, verify);
    }
  });
  return Exit::done;
}

}  // namespace

Command info_command() {
  return {
      .spec = {.name = "info",
               .summary = "describe a checkpoint, a trace or a tokens file; of the directory of a run its newest checkpoint",
               .arguments = {"FILE"},
               .options = false,
               .checks = false,
               .own = {{"verify", false, "", config::any(), "read the data back and compare all checksums"},
                       {"all", false, "", config::any(), "also every tensor and all options of a checkpoint"}}},
      .run = info,
      .alone = true};
}

}  // namespace shoal::app
