// SPDX-License-Identifier: Apache-2.0
#include "shoal/io/checkpoint_directory.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "io/checkpoint/checkpoint_format.hpp"
#include "io/checkpoint/checkpoint_verify.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"

namespace shoal::io {

namespace fs = std::filesystem;

namespace {

/// "20, 40, 60", or the beginning and the end of a long list.
std::string print_steps(std::vector<std::int64_t> steps) {
  constexpr std::size_t most = 8;
  std::sort(steps.begin(), steps.end());
  std::string line;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool left_out = steps.size() > most && i >= most / 2 && i + most / 2 < steps.size();
    if (left_out && i > most / 2) continue;
    line += text(line.empty() ? "" : ", ", left_out ? "..." : std::to_string(steps[i]));
  }
  return line;
}

}  // namespace

std::vector<std::size_t> to_delete(const std::vector<CheckpointOrigin>& checkpoints, const Lineage& lineage, int keep,
                                   const std::function<bool(std::size_t)>& whole, std::optional<std::int64_t> spared) {
  std::vector<std::size_t> newest_first(checkpoints.size());
  std::iota(newest_first.begin(), newest_first.end(), std::size_t{0});
  std::erase_if(newest_first, [&](std::size_t i) { return !belongs(lineage, checkpoints[i].by.run, checkpoints[i].step); });
  std::stable_sort(newest_first.begin(), newest_first.end(),
                   [&](std::size_t a, std::size_t b) { return checkpoints[a].step > checkpoints[b].step; });
  std::vector<std::size_t> doomed;
  for (const std::size_t i : newest_first) {
    if (keep == 0) {
      if (checkpoints[i].step != spared) doomed.push_back(i);
    } else if (whole(i)) {
      --keep;
    }
  }
  return doomed;
}

CheckpointDirectory::CheckpointDirectory(fs::path directory) : path_(std::move(directory)) {
  for (const fs::path& file : list_checkpoints(path_)) {
    heartbeat::beat();
    open(file);
  }
}

void CheckpointDirectory::open(const fs::path& file) {
  const std::optional<Stamp> stamp = stamp_of(file);
  try {
    CheckpointContents contents = describe_checkpoint(file);
    known_.push_back(
        {file, {std::move(contents.state.lineage), contents.state.step}, Data::unread, stamp, std::move(contents.datasets)});
  } catch (const Error& error) {
    unreadable_.push_back({file, checkpoint_step(file).value_or(0), error});
  }
}

std::optional<CheckpointDirectory::Stamp> CheckpointDirectory::stamp_of(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return std::nullopt;
  return Stamp{status.st_size, status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec};
}

std::vector<fs::path> CheckpointDirectory::of_lineage(const std::optional<Lineage>& run, const fs::path& resumed_from,
                                                      const std::string& allowed) const {
  for (const Unreadable& file : unreadable_) {
    // The file may be whole, only not readable at this moment. Its run is unknown, and it may be the newest.
    if (file.why.code() != Exit::bad_input) throw file.why;
  }
  std::vector<CheckpointOrigin> all;
  for (const Known& known : known_) all.push_back(known.checkpoint);
  const std::optional<Lineage> wanted = run ? run : common_lineage(all);
  std::vector<std::pair<std::int64_t, fs::path>> found;
  for (const Known& known : known_) {
    if (wanted && belongs(*wanted, known.checkpoint.by.run, known.checkpoint.step)) {
      found.emplace_back(known.checkpoint.step, known.file);
    }
  }
  const bool from_resumed = found.empty() && !resumed_from.empty();
  require_input(!found.empty() || from_resumed || known_.empty(), path_.string(), ": ",
                run ? text("no checkpoint belongs to the run in output.dir, ", short_name(run->run))
                    : "the checkpoints belong to several runs",
                "; found: ", list(), "; allowed: ", allowed);
  for (const Unreadable& file : unreadable_) found.emplace_back(file.step, file.file);
  std::sort(found.rbegin(), found.rend());
  std::vector<fs::path> files;
  files.reserve(found.size());
  for (auto& [step, file] : found) files.push_back(std::move(file));
  if (from_resumed) {
    const CheckpointState state = read_checkpoint_state(resumed_from);
    require_input(belongs(*run, state.lineage.run, state.step), resumed_from.string(),
                  ": the run in output.dir was resumed from this file, which now belongs to another run (",
                  short_name(state.lineage.run), "); allowed: checkpoint.resume = the path of another checkpoint");
    files.push_back(resumed_from);
  }
  return files;
}

/// All files with their runs, for a message.
std::string CheckpointDirectory::list() const {
  constexpr std::size_t most = 20;
  std::string line;
  for (std::size_t i = 0; i < std::min(known_.size(), most); ++i) {
    const auto& [by, step] = known_[i].checkpoint;
    line += text(i == 0 ? "" : ", ", known_[i].file.filename().string(), " (step ", step, ", run ", short_name(by.run),
                 by.started.empty() ? "" : ", started ", by.started, ")");
  }
  if (known_.size() > most) line += text(", and ", known_.size() - most, " more");
  if (!unreadable_.empty()) line += text("; ", unreadable_.size(), " damaged");
  return line;
}

std::string CheckpointDirectory::others(const Lineage& lineage) const {
  std::map<std::string, std::vector<std::int64_t>> steps;
  for (const Known& known : known_) {
    const auto& [by, step] = known.checkpoint;
    if (!belongs(lineage, by.run, step)) steps[by.run].push_back(step);
  }
  if (steps.empty()) return "";
  std::string line;
  for (const auto& [run, of_run] : steps) {
    line += text(line.empty() ? "" : "; ", "run ", short_name(run), ": steps ", print_steps(of_run));
  }
  return text(path_.string(), " holds checkpoints that are not of this run's lineage (", line,
              "): this run does not delete them, but replaces those whose step it reaches");
}

bool CheckpointDirectory::has(const Lineage& lineage, std::int64_t step) const {
  return std::any_of(known_.begin(), known_.end(), [&](const Known& known) {
    return known.checkpoint.step == step && belongs(lineage, known.checkpoint.by.run, step);
  });
}

void CheckpointDirectory::is_whole(const fs::path& file) {
  for (Known& known : known_) {
    std::error_code ignored;
    if (fs::equivalent(known.file, file, ignored)) known.data = Data::whole;
  }
}

void CheckpointDirectory::wrote(const fs::path& file, const CheckpointOrigin& checkpoint) {
  std::erase_if(known_, [&](const Known& known) { return known.file == file; });
  std::erase_if(unreadable_, [&](const Unreadable& damaged) { return damaged.file == file; });
  known_.push_back({file, checkpoint, Data::whole, std::nullopt, {}});
}

/// Forgets files that were deleted, or replaced by somebody else, since they were opened.
void CheckpointDirectory::forget_changed() {
  std::erase_if(known_, [](const Known& known) {
    const std::optional<Stamp> now = stamp_of(known.file);
    return !now || (known.stamp && *known.stamp != *now);
  });
}

/// Returns true if the file is whole ([Note: Whole]).
bool CheckpointDirectory::read_back(Known& known, std::vector<std::string>& lines) {
  if (known.data != Data::unread) return known.data == Data::whole;
  try {
    compare_checksums(known.file, known.datasets, checksums_of_part(known.file, known.datasets, 0, 1));
    known.data = Data::whole;
  } catch (const Error& error) {
    known.data = Data::damaged;
    lines.push_back(text(error.what(), "; it is not deleted, and not counted for checkpoint.keep"));
  }
  known.datasets.clear();
  return known.data == Data::whole;
}

void CheckpointDirectory::remove_unfinished() {
  if (std::exchange(cleaned_, true)) return;
  for (const fs::path& file : list_unfinished_checkpoints(path_)) removal_.remove(file);
}

std::vector<std::string> CheckpointDirectory::prune(const Lineage& lineage, int keep, std::optional<std::int64_t> spared) {
  if (keep == 0) return {};
  std::vector<const Known*> own;
  for (const Known& known : known_) {
    if (belongs(lineage, known.checkpoint.by.run, known.checkpoint.step)) own.push_back(&known);
  }
  const bool unread = std::any_of(own.begin(), own.end(), [](const Known* known) { return known->data == Data::unread; });
  if (unread || own.size() > static_cast<std::size_t>(keep)) forget_changed();
  std::vector<std::string> lines;
  std::vector<CheckpointOrigin> checkpoints;
  for (const Known& known : known_) checkpoints.push_back(known.checkpoint);
  const std::vector<std::size_t> doomed = to_delete(
      checkpoints, lineage, keep, [&](std::size_t i) { return read_back(known_[i], lines); }, spared);
  std::vector<fs::path> files;
  files.reserve(doomed.size());
  for (const std::size_t i : doomed) files.push_back(known_[i].file);
  for (const fs::path& file : files) {
    removal_.remove(file);
    std::erase_if(known_, [&](const Known& known) { return known.file == file; });
  }
  return lines;
}

}  // namespace shoal::io
