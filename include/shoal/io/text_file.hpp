// SPDX-License-Identifier: Apache-2.0
// Small text files: read at once; written at once, or line by line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace shoal::io {

/// Writes FILE.partial, syncs it and renames it, so that the file is complete or absent. If `file` is not a regular file,
/// but a pipe or /dev/stdout, writes to it directly.
void write_text_file(const std::filesystem::path& file, const std::string& content);
/// Returns true if write_text_file() writes to `file` directly, so that it replaces nothing.
bool is_stream(const std::filesystem::path& file);

/// Returns the content of a regular file. fail() with the system's reason if it cannot be opened or read.
std::string read_text_file(const std::filesystem::path& file);

/// A file of lines that others read while it grows.
class LineFile {
 public:
  LineFile();
  using Add = std::function<void(const std::string& line)>;
  /// Creates the file with the lines that `lines` passes to the function that it is given. It replaces an existing file
  /// atomically, so `lines` may read that one meanwhile. Holds only a part of the lines in memory.
  LineFile(const std::filesystem::path& file, const std::function<void(const Add&)>& lines);
  ~LineFile();
  LineFile(LineFile&&) noexcept;
  LineFile& operator=(LineFile&&) noexcept;

  bool is_open() const;
  /// The line has been passed to the operating system when this returns; it is not synced.
  void append(const std::string& line);
  /// Replaces the line that append() wrote last by one that is not shorter.
  void replace_last(const std::string& line);
  void sync();
  /// fail() if the file was removed or replaced.
  void require_there() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shoal::io
