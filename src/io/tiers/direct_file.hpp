// SPDX-License-Identifier: Apache-2.0
// A file without a name whose reads and writes bypass the system's cache, where the file system allows that.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "io/files/files.hpp"

namespace shoal::io {

class DirectFile {
 public:
  /// Reserves so many bytes of the directory's disk.
  DirectFile(const std::filesystem::path& directory, std::uint64_t bytes);

  int descriptor() const { return file_.descriptor(); }
  bool direct() const { return direct_; }
  /// Lets the system forget what it has cached of these bytes, which were written; nothing if the file is direct.
  void forget(std::uint64_t offset, std::uint64_t bytes) const;
  /// Changes one byte, as a damaged disk might.
  void flip(std::uint64_t offset) const;

 private:
  File file_;
  bool direct_;
};

/// What a user should know of a directory for a tier: that it is memory, or on another machine.
std::vector<std::string> warnings_of(const std::filesystem::path& directory);

}  // namespace shoal::io
