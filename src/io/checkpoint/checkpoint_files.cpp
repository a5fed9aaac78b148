// SPDX-License-Identifier: Apache-2.0
// Names of checkpoint files, and lists of a directory's checkpoints.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>

#include "io/checkpoint/checkpoint_format.hpp"
#include "shoal/base/error.hpp"
#include "shoal/io/checkpoint.hpp"

namespace shoal::io {

namespace fs = std::filesystem;
namespace format = checkpoint_format;

namespace {

constexpr std::string_view prefix = "step_", extension = ".h5";
constexpr std::size_t least_digits = 8;

/// The step in a checkpoint's file name; nothing for other names.
std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(prefix) || !name.ends_with(extension)) return std::nullopt;
  if (name.size() < prefix.size() + least_digits + extension.size()) return std::nullopt;
  name = name.substr(prefix.size(), name.size() - prefix.size() - extension.size());
  if (name.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  return error == std::errc() ? std::optional(step) : std::nullopt;
}

bool is_checkpoint_name(const std::string& name) { return step_of(name).has_value(); }

bool is_temporary(const std::string& name) {
  const std::string_view suffix = format::temporary_suffix;
  return name.ends_with(suffix) && step_of(std::string_view(name).substr(0, name.size() - suffix.size()));
}

/// The entries of a directory for whose name `named` and for which `is_one` returns true. None if the directory does not
/// exist. An Error if it cannot be read: a run must not take it for an empty one and start from the beginning.
template <typename Named, typename Kind>
std::vector<fs::path> files_of(const fs::path& directory, const Named& named, const Kind& is_one) {
  std::vector<fs::path> found;
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  if (error == std::errc::no_such_file_or_directory) return found;
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (!named(entry->path().filename().string())) continue;
    const bool wanted = is_one(*entry, error);
    if (error == std::errc::no_such_file_or_directory) error.clear();  // it was removed meanwhile
    if (error) break;
    if (wanted) found.push_back(entry->path());
  }
  require(!error, directory.string(), ": cannot be listed: ", error.message());
  return found;
}

}  // namespace

std::string checkpoint_name(std::int64_t step) {
  char name[40];
  std::snprintf(name, sizeof name, "step_%08lld.h5", static_cast<long long>(step));
  return name;
}

std::optional<std::int64_t> checkpoint_step(const fs::path& file) { return step_of(file.filename().string()); }

std::vector<fs::path> list_checkpoints(const fs::path& directory) {
  const auto is_one = [](const fs::directory_entry& entry, std::error_code& error) { return entry.is_regular_file(error); };
  std::vector<fs::path> files = files_of(directory, is_checkpoint_name, is_one);
  const auto key = [](const fs::path& file) { return std::pair(checkpoint_step(file), file); };
  std::sort(files.begin(), files.end(), [&](const fs::path& a, const fs::path& b) { return key(a) < key(b); });
  return files;
}

std::vector<fs::path> list_unfinished_checkpoints(const fs::path& directory) {
  const auto is_one = [](const fs::directory_entry& entry, std::error_code& error) {
    const fs::file_status status = entry.symlink_status(error);
    return fs::is_regular_file(status) || fs::is_symlink(status);
  };
  return files_of(directory, is_temporary, is_one);
}

std::vector<fs::path> list_obstacles(const fs::path& directory) {
  const auto is_one = [](const fs::directory_entry& entry, std::error_code& error) {
    return fs::is_directory(entry.symlink_status(error));
  };
  return files_of(directory, is_checkpoint_name, is_one);
}

}  // namespace shoal::io
