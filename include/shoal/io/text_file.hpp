// SPDX-License-Identifier: Apache-2.0
// Small files of text: whole ones, and such as grow line by line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace shoal::io {

/// Complete or absent: written as FILE.partial, synced, and given its name. What is no file, as /dev/stdout or a pipe, is
/// written to.
void write_text_file(const std::filesystem::path& file, const std::string& content);
/// Whether write_text_file() writes to it as it stands, so that nothing there can be lost.
bool is_stream(const std::filesystem::path& file);

/// A file of lines that others read while it grows.
class LineFile {
 public:
  LineFile();
  /// Replaces what is there, by these lines, at once.
  LineFile(const std::filesystem::path& file, const std::vector<std::string>& lines);
  ~LineFile();
  LineFile(LineFile&&) noexcept;
  LineFile& operator=(LineFile&&) noexcept;

  bool is_open() const;
  /// On the way to the disk when it returns.
  void append(const std::string& line);
  /// fail() where the file's name is no longer that of what was written.
  void require_there() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shoal::io
