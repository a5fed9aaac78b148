// SPDX-License-Identifier: Apache-2.0
#include "app/train/run_files.hpp"

#include <chrono>
#include <limits>
#include <thread>
#include <vector>

#include "app/checkpoint/run_record.hpp"
#include "app/setup/weights.hpp"
#include "app/support/collective.hpp"
#include "app/support/output_paths.hpp"
#include "app/support/own_results.hpp"
#include "app/train/disk_space.hpp"
#include "app/train/metrics.hpp"
#include "app/train/run_log.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/output.hpp"
#include "shoal/comm/abort.hpp"
#include "shoal/io/checkpoint.hpp"
#include "shoal/io/hdf5.hpp"
#include "shoal/io/target.hpp"

namespace shoal::app {

namespace fs = std::filesystem;

namespace {

bool resumes(const config::Options& options) { return options.checkpoint.resume != "none"; }

/// Returns true if the run may well read or write checkpoint.dir. Another one does so only if a signal stops it.
bool uses_checkpoints(const config::Options& options) {
  const config::CheckpointOptions& o = options.checkpoint;
  return writes_checkpoints(o) || !o.dir.empty() || options.train.stop_after != 0 || resumes(options);
}

fs::path directory_of(const fs::path& file) { return file.has_parent_path() ? file.parent_path() : "."; }

/// Where an earlier run wrote its checkpoints if it was not told another place.
fs::path default_checkpoints(const config::Options& options) { return fs::path(options.output.dir) / checkpoints_name; }

bool holds_checkpoints(const fs::path& directory) {
  return !io::list_checkpoints(directory).empty() || !io::list_unfinished_checkpoints(directory).empty();
}

bool is_trace_name(const std::string& name) {
  return name == trace_name || (name.starts_with("trace_from_") && name.ends_with(".h5"));
}

/// Files that an earlier run wrote into output.dir, recognized by their names.
struct OldFiles {
  std::vector<std::pair<fs::path, io::OwnKind>> files;
  std::vector<fs::path> unfinished;  // under temporary names
};

OldFiles old_files_in(const fs::path& directory, const fs::path& checkpoints) {
  OldFiles old;
  std::error_code error;
  const fs::directory_iterator entries(directory, error);
  require(!error || error == std::errc::no_such_file_or_directory, directory.string(),
          ": cannot be listed: ", error.message());
  for (const auto& entry : entries) {
    const std::string name = entry.path().filename();
    if (name == metrics_name) old.files.emplace_back(entry.path(), own_metrics());
    if (name == summary_name) old.files.emplace_back(entry.path(), own_summary());
    if (name == run_record_name) old.files.emplace_back(entry.path(), own_run_record());
    if (is_trace_name(name)) old.files.emplace_back(entry.path(), io::own_kind(io::FileKind::trace));
  }
  for (const fs::path& file : io::list_checkpoints(checkpoints)) {
    old.files.emplace_back(file, io::own_kind(io::FileKind::checkpoint));
  }
  old.unfinished = io::list_unfinished_checkpoints(checkpoints);
  return old;
}

/// Checks all files before it removes the first.
void remove_files(const OldFiles& old) {
  for (const auto& [file, kind] : old.files) {
    if (!io::is_torn(file)) io::require_target("", file, kind, true);
  }
  std::vector<fs::path> paths = old.unfinished;
  for (const auto& [file, kind] : old.files) paths.push_back(file);
  for (const fs::path& file : paths) {
    std::error_code error;
    fs::remove(file, error);
    require_input(!error, file.string(), ": cannot be removed: ", error.message());
  }
}

/// Fails if a name that this run may give to one of its checkpoints belongs to something that it must not replace. Two kinds
/// of files are not checked here: if resume = latest, all files, since they are read anyway and damaged ones are passed over
/// with a warning; and those of an earlier run in output.dir, since prepare_output() checks them. A run that is resumed from
/// a path may replace damaged checkpoints: they may be those of the steps that it repeats.
void check_checkpoints(const config::Options& options) {
  const bool in_output = options.checkpoint.dir.empty();
  const std::string option =
      in_output ? "output.dir = " + options.output.dir + ": " : "checkpoint.dir = " + options.checkpoint.dir + ": ";
  const fs::path directory = checkpoint_directory(options);
  const auto is_reached = [&](const fs::path& file) {
    return io::checkpoint_step(file).value_or(0) <= static_cast<std::int64_t>(options.train.steps);
  };
  const auto require_own = [&](const fs::path& file) {
    io::require_target(option, file, io::own_kind(io::FileKind::checkpoint), true);
  };
  for (const fs::path& obstacle : io::list_obstacles(directory)) {
    if (is_reached(obstacle)) require_own(obstacle);
  }
  if (options.checkpoint.resume == "latest" || (in_output && !resumes(options))) return;
  for (const fs::path& file : io::list_checkpoints(directory)) {
    heartbeat::beat();
    if (!is_reached(file)) continue;
    const bool damaged = resumes(options) ? io::is_hdf5(file) : options.output.overwrite && io::is_torn(file);
    if (!damaged) require_own(file);
  }
}

/// Removes the note of an earlier run that was aborted.
void remove_note_of_abort(const fs::path& directory) {
  const fs::path note = directory / aborted_name;
  if (!comm::is_note_of_abort(note)) return;
  std::error_code error;
  fs::remove(note, error);
  require_input(!error, note.string(), ": cannot be removed: ", error.message());
}

/// Fails if output.dir holds another run that may not be replaced; removes one that may be.
void prepare_output(const config::Options& options) {
  const OldFiles old = old_files_in(options.output.dir, default_checkpoints(options));
  if (resumes(options)) {
    io::require_target("", fs::path(options.output.dir) / summary_name, own_summary(), true);
    io::require_target("", fs::path(options.output.dir) / run_record_name, own_run_record(), true);
    for_lines_until(fs::path(options.output.dir) / metrics_name, std::numeric_limits<std::int64_t>::max(),
                    [](const std::string&, std::int64_t) {});
    return;
  }
  if (!old.files.empty() || !old.unfinished.empty()) {
    const fs::path& first = old.files.empty() ? old.unfinished.front() : old.files.front().first;
    require_input(options.output.overwrite, "output.dir = ", options.output.dir, " holds another run (",
                  fs::relative(first, options.output.dir).string(),
                  "); allowed: another directory, checkpoint.resume, or --output.overwrite");
    remove_files(old);
  }
  if (options.output.overwrite) remove_log(options);
}

void check_other_targets(const config::Options& options) {
  if (options.trace.level != trace::Level::off && !options.trace.file.empty()) {
    const fs::path file = trace_path(options);
    io::make_writable("trace.file = " + options.trace.file, directory_of(file));
    if (!resumes(options)) {
      io::require_target("trace.file = ", file, io::own_kind(io::FileKind::trace), options.output.overwrite);
    }
  }
  if (!options.output.export_dir.empty()) {
    const std::string option = "output.export = ";
    io::make_writable(option + options.output.export_dir, options.output.export_dir);
    require_export(option, options.output.export_dir, options.output.overwrite || resumes(options));
  }
}

}  // namespace

void require_writable(const config::Options& options) {
  const auto check = [](const std::string& option, const fs::path& directory) {
    const std::string problem = io::why_not_writable(directory);
    require_input(problem.empty(), option, ": cannot be written to: ", problem);
  };
  check("output.dir = " + options.output.dir, options.output.dir);
  if (!options.checkpoint.dir.empty()) check("checkpoint.dir = " + options.checkpoint.dir, options.checkpoint.dir);
  if (!options.trace.file.empty()) check("trace.file = " + options.trace.file, directory_of(trace_path(options)));
  if (!options.output.export_dir.empty()) check("output.export = " + options.output.export_dir, options.output.export_dir);
}

RunFiles::RunFiles(comm::World& world, const config::Options& options) : world_(world), options_(options) {
  take(output_, "output.dir = " + options.output.dir, options.output.dir);
  if (uses_checkpoints(options)) enter_checkpoints();
  std::unique_ptr<io::DirectoryLock> replaced;
  if (options.output.overwrite && !resumes(options)) {
    // They are removed below, unless they are those of a run that has another output.dir.
    const fs::path directory = default_checkpoints(options);
    take(replaced, "output.dir = " + options.output.dir + ": its checkpoints", directory,
         [&] { return holds_checkpoints(directory); });
  }
  on_rank_0(world.all(), [&] {
    check_checkpoints(options);
    prepare_output(options);
    remove_note_of_abort(options.output.dir);
    check_other_targets(options);
    require_space(options);
  });
  comm::note_aborts_in(fs::path(options.output.dir) / aborted_name);
}

void RunFiles::enter_checkpoints() {
  const fs::path directory = checkpoint_directory(options_);
  if (!in_checkpoints_) take(checkpoints_, "checkpoint.dir = " + directory.string(), directory);
  in_checkpoints_ = true;
}

/// Takes it if rank 0 needs it, and does not hold it already. Rank 0 tries to take the lock again and again, for a moment
/// each time; the others wait for each attempt, so that the watchdog sees progress.
void RunFiles::take(std::unique_ptr<io::DirectoryLock>& lock, const std::string& option, const fs::path& directory,
                    const std::function<bool()>& is_needed) {
  const auto note = [](const std::string& line) { output::print(text("# ", line, "\n")); };
  std::uint64_t held = 0;
  on_rank_0(world_.all(), [&] {
    if (!is_needed()) {
      held = 1;
      return;
    }
    io::make_writable(option, directory);
    const auto locked = [&](const auto& other, const fs::path& place) {
      std::error_code error;
      return other != nullptr && fs::equivalent(directory, place, error);
    };
    held = locked(output_, options_.output.dir) || locked(checkpoints_, checkpoint_directory(options_)) ? 1 : 0;
    if (held == 0) lock = std::make_unique<io::DirectoryLock>(directory, option, options_.comm.timeout, note);
  });
  while (true) {
    on_rank_0(world_.all(), [&] {
      if (held == 0 && !lock->try_take()) {
        std::this_thread::sleep_for(std::chrono::duration<double>(lock->poll_s()));
      } else {
        held = 1;
      }
    });
    world_.all().broadcast(comm::bytes_of(Span<std::uint64_t>(&held, 1)), 0).wait();
    heartbeat::beat();
    if (held != 0) return;
  }
}

bool RunFiles::lost() const {
  return (output_ && !output_->why_lost().empty()) || (checkpoints_ && !checkpoints_->why_lost().empty());
}

void RunFiles::check() {
  on_rank_0(world_.all(), [&] {
    for (const auto& lock : {output_.get(), checkpoints_.get()}) {
      if (lock == nullptr) continue;
      const std::string reason = lock->why_lost(true);
      require(reason.empty(), reason);
    }
  });
}

}  // namespace shoal::app
