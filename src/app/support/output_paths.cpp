// SPDX-License-Identifier: Apache-2.0
#include "app/support/output_paths.hpp"

#include <string>

#include "shoal/base/error.hpp"

namespace shoal::app {

namespace fs = std::filesystem;

fs::path checkpoint_directory(const config::Options& options) {
  return options.checkpoint.dir.empty() ? fs::path(options.output.dir) / checkpoints_name : fs::path(options.checkpoint.dir);
}

fs::path trace_path(const config::Options& options) {
  return options.trace.file.empty() ? fs::path(options.output.dir) / trace_name : fs::path(options.trace.file);
}

fs::path next_trace_part(const config::Options& options, std::int64_t first_step) {
  fs::path whole = trace_path(options);
  const auto taken = [](const fs::path& path) { return fs::exists(fs::symlink_status(path)); };
  if (first_step == 0 && !taken(whole)) return whole;
  const std::string stem = text((whole.parent_path() / whole.stem()).string(), "_from_", first_step);
  fs::path part = stem + whole.extension().string();
  for (int number = 2; taken(part); ++number) part = text(stem, "_", number, whole.extension().string());
  return part;
}

}  // namespace shoal::app
