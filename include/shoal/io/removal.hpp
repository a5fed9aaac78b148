// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <thread>

namespace shoal::io {

/// Removes large files: their names at once, their disk space on a thread. A file system that reports free blocks to its
/// disk waits for the disk, for up to a quarter of the time of a save, and uses hardly any processor time meanwhile.
class Removal {
 public:
  Removal() = default;
  ~Removal() { wait(); }
  Removal(const Removal&) = delete;
  Removal& operator=(const Removal&) = delete;

  /// Throws an Error if the file cannot be removed. If it is a symbolic link, the link itself is removed.
  void remove(const std::filesystem::path& file);
  /// Waits until the space of all removed files is free.
  void wait();

 private:
  std::thread thread_;
};

}  // namespace shoal::io
