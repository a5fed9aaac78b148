// SPDX-License-Identifier: Apache-2.0
#include "app/train/disk_space.hpp"

#include <cstdint>
#include <filesystem>
#include <vector>

#include "app/support/output_paths.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/notation.hpp"
#include "shoal/io/checkpoint.hpp"
#include "shoal/io/disk_probe.hpp"
#include "shoal/model/model.hpp"
#include "shoal/optim/optimizer.hpp"

namespace shoal::app {

namespace fs = std::filesystem;

namespace {

/// Its parameters and moments. Nodes that train locally add their own states, and names and checksums take a little more.
std::uint64_t least_checkpoint_bytes(const config::Options& options) {
  std::uint64_t parameters = 0;
  for (const model::UnitLayout& unit : model::layout(options.model)) parameters += unit.parameter_count();
  return parameters * sizeof(float) * (1 + optim::make(options.optimizer)->moment_names().size());
}

/// The directory, or the nearest one above it that exists.
fs::path existing(const fs::path& directory) {
  fs::path there = fs::absolute(directory).lexically_normal();
  std::error_code error;
  while (!fs::exists(fs::status(there, error)) && there != there.root_path()) there = there.parent_path();
  return there;
}

std::uint64_t bytes_of_files(const std::vector<fs::path>& files) {
  std::uint64_t bytes = 0;
  for (const fs::path& file : files) {
    std::error_code error;
    const std::uintmax_t size = fs::file_size(file, error);  // a link without a target has none
    if (!error) bytes += size;
  }
  return bytes;
}

std::uint64_t free_bytes(const config::Options& options) {
  const fs::path directory = checkpoint_directory(options);
  std::uint64_t bytes =
      io::free_disk_bytes(existing(directory)) + bytes_of_files(io::list_unfinished_checkpoints(directory));
  const bool replaces = options.output.overwrite && options.checkpoint.resume == "none" && options.checkpoint.dir.empty();
  if (replaces) bytes += bytes_of_files(io::list_checkpoints(directory));
  return bytes;
}

std::string when(const config::CheckpointOptions& options) {
  std::string words;
  const auto add = [&](const std::string& word) { words += (words.empty() ? "" : ", ") + word; };
  if (options.every != 0) add(options.every == 1 ? "after every step" : text("every ", options.every, " steps"));
  if (options.last) add("after the last step");
  if (options.keep_best) add("at the best validation loss");
  return words;
}

}  // namespace

bool writes_checkpoints(const config::CheckpointOptions& options) {
  return options.every != 0 || options.last || options.keep_best;
}

std::string checkpoint_plan(const config::Options& options) {
  if (!writes_checkpoints(options.checkpoint)) {
    return "checkpoints: none, unless the run is stopped early (checkpoint.last, checkpoint.every)";
  }
  return text("checkpoints: of ", bytes_text(least_checkpoint_bytes(options)), " or more, ", when(options.checkpoint),
              ", in ", checkpoint_directory(options).string(), "; ", bytes_text(free_bytes(options)), " are free");
}

void require_space(const config::Options& options) {
  if (!writes_checkpoints(options.checkpoint)) return;
  const std::uint64_t needed = least_checkpoint_bytes(options), there = free_bytes(options);
  require_input(there >= needed, checkpoint_directory(options).string(), ": a checkpoint needs ", bytes_text(needed),
                ", the disk has ", bytes_text(there),
                " free; allowed: another checkpoint.dir, or no checkpoints: checkpoint.last = false",
                options.checkpoint.every != 0 ? ", checkpoint.every = 0" : "",
                options.checkpoint.keep_best ? ", checkpoint.keep_best = false" : "");
}

}  // namespace shoal::app
