// SPDX-License-Identifier: Apache-2.0
// The checkpoints of a directory.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>

#include "checkpoint_format.hpp"
#include "shoal/base/error.hpp"
#include "shoal/io/checkpoint.hpp"

namespace shoal::io {

namespace fs = std::filesystem;
namespace format = checkpoint_format;

namespace {

constexpr std::string_view prefix = "step_", extension = ".h5";
constexpr std::size_t least_digits = 8;

/// The step of a checkpoint's file name; nothing for other names.
std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(prefix) || !name.ends_with(extension)) return std::nullopt;
  if (name.size() < prefix.size() + least_digits + extension.size()) return std::nullopt;
  name = name.substr(prefix.size(), name.size() - prefix.size() - extension.size());
  if (name.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  return error == std::errc() ? std::optional(step) : std::nullopt;
}

bool is_temporary(const std::string& name) {
  const std::string_view suffix = format::temporary_suffix;
  return name.ends_with(suffix) && step_of(std::string_view(name).substr(0, name.size() - suffix.size()));
}

}  // namespace

std::string checkpoint_name(std::int64_t step) {
  char name[40];
  std::snprintf(name, sizeof name, "step_%08lld.h5", static_cast<long long>(step));
  return name;
}

std::vector<fs::path> list_checkpoints(const fs::path& directory) {
  std::vector<std::pair<std::int64_t, fs::path>> found;
  std::error_code absent;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, absent)) {
    const auto step = step_of(entry.path().filename().string());
    if (step && entry.is_regular_file()) found.emplace_back(*step, entry.path());
  }
  std::sort(found.begin(), found.end());
  std::vector<fs::path> files;
  for (auto& [step, file] : found) files.push_back(std::move(file));
  return files;
}

std::vector<fs::path> list_unfinished_checkpoints(const fs::path& directory) {
  std::vector<fs::path> files;
  std::error_code absent;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, absent)) {
    const fs::file_status status = entry.symlink_status();
    const bool file = fs::is_regular_file(status) || fs::is_symlink(status);
    if (file && is_temporary(entry.path().filename().string())) files.push_back(entry.path());
  }
  return files;
}

void prune_checkpoints(const fs::path& directory, int keep) {
  require(keep >= 1, "prune_checkpoints: ", keep, " to keep");
  std::vector<fs::path> doomed = list_checkpoints(directory);
  doomed.resize(doomed.size() - std::min(doomed.size(), static_cast<std::size_t>(keep)));
  for (const fs::path& file : list_unfinished_checkpoints(directory)) doomed.push_back(file);
  for (const fs::path& file : doomed) {
    std::error_code error;
    fs::remove(file, error);
    require(!error, file.string(), ": cannot be removed: ", error.message());
  }
}

}  // namespace shoal::io
