// SPDX-License-Identifier: Apache-2.0
#include "app/checkpoint/newest.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "app/checkpoint/run_record.hpp"
#include "app/support/collective.hpp"
#include "app/support/output_paths.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/output.hpp"
#include "shoal/base/printable.hpp"
#include "shoal/io/checkpoint.hpp"
#include "shoal/io/checkpoint_directory.hpp"

namespace shoal::app {

namespace fs = std::filesystem;

namespace {

/// What run.json says. A damaged one says nothing: the checkpoints themselves say to which runs they belong.
std::optional<RunRecord> record_in(const fs::path& directory) {
  try {
    return read_run_record(directory);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The record in the directory; or the one beside it, if it is the directory of that run's checkpoints.
std::optional<RunRecord> record_of(const fs::path& directory) {
  if (std::optional<RunRecord> record = record_in(directory)) return record;
  const fs::path above = fs::absolute(directory / "..").lexically_normal();
  const std::optional<RunRecord> beside = record_in(above);
  std::error_code error;
  return beside && fs::equivalent(directory, above / checkpoints_name, error) ? beside : std::nullopt;
}

/// Where the run's checkpoints are. The record has the absolute path of then, so a run that was moved or copied is found by
/// the usual name.
fs::path place_of_checkpoints(const fs::path& run, const std::optional<RunRecord>& record) {
  const fs::path usual = run / checkpoints_name;
  const bool is_there = fs::is_directory(usual);
  if (is_there && (!record || record->checkpoints.filename() == checkpoints_name)) return usual;
  if (!io::list_checkpoints(run).empty()) return run;
  if (record && fs::is_directory(record->checkpoints)) return record->checkpoints;
  return is_there ? usual : run;
}

/// "metrics.jsonl, run.json and 3 more".
std::string names_in(const fs::path& directory) {
  constexpr std::size_t most = 6;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  std::string words;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i) words += (i == 0 ? "" : ", ") + printable(names[i]);
  if (names.size() > most) words += text(" and ", names.size() - most, " more");
  return words.empty() ? "nothing" : words;
}

}  // namespace

fs::path checkpoint_of(const std::string& argument) {
  if (!fs::is_directory(argument)) return argument;
  const std::optional<RunRecord> record = record_of(argument);
  const fs::path place = place_of_checkpoints(argument, record);
  const io::CheckpointDirectory directory(place);
  const auto run = record ? std::optional(record->lineage) : std::nullopt;
  for (const fs::path& file : directory.of_lineage(run, {}, "the path of one of them")) {
    try {
      io::read_checkpoint_state(file);
    } catch (const Error& error) {
      if (error.code() != Exit::bad_input) throw;  // it may be whole, but cannot be read at this moment
      output::complain(text("# passed over: ", printable(error.what()), "\n"));
      continue;
    }
    output::complain(
        text("# ", printable(argument), ": the newest complete checkpoint is ", printable(file.string()), "\n"));
    return file;
  }
  const fs::path shown = fs::is_directory(place) ? place : fs::path(argument);
  bad_input(argument, ": no complete checkpoint; in ", shown.string(), ": ", names_in(shown),
            "; allowed: the path of a checkpoint, or a directory of a run that wrote one (checkpoint.last = true, or "
            "checkpoint.every)");
}

fs::path checkpoint_of(comm::World& world, const std::string& argument) {
  std::string file;
  on_rank_0(world.all(), [&] { file = checkpoint_of(argument).string(); });
  return broadcast_text(world.all(), file, 0);
}

}  // namespace shoal::app
