// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <thread>

namespace shoal::io {

/// Removes large files: their names at once, and what they take of the disk on a thread of its own. A file system that tells
/// its disk of free blocks waits for it, as long as a quarter of a save, and hardly computes meanwhile.
class Removal {
 public:
  Removal() = default;
  ~Removal() { wait(); }
  Removal(const Removal&) = delete;
  Removal& operator=(const Removal&) = delete;

  /// Error: the file cannot be removed. Of a symbolic link it removes the link.
  void remove(const std::filesystem::path& file);
  /// Until all that was removed is free.
  void wait();

 private:
  std::thread thread_;
};

}  // namespace shoal::io
