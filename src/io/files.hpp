// SPDX-License-Identifier: Apache-2.0
// Plain files: whole reads and writes at offsets, disk space reserved beforehand, names that appear only when all is on
// disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "shoal/base/types.hpp"

namespace shoal::io {

/// Tells files apart, whatever their names: device, then number on it.
using FileId = std::pair<std::uint64_t, std::uint64_t>;

class File {
 public:
  /// create: a new file. What a killed run left under the name goes, and so does a link: only files that this opened are
  /// written to. For temporary names. create_new: the same, but whatever stands under the name is an error.
  enum class Mode { read, write, create, create_new };
  File() = default;
  File(const std::filesystem::path& path, Mode mode);
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;

  const std::filesystem::path& path() const { return path_; }
  /// From now on messages name it so: it was given this name.
  void renamed(const std::filesystem::path& path) { path_ = path; }
  /// fail() unless it still stands under its name.
  void require_there() const;
  bool is_open() const { return descriptor_ >= 0; }
  std::uint64_t size() const;
  FileId id() const;
  /// All of `data`, or an error: a file that ends before is one.
  void read(std::uint64_t offset, Span<std::byte> data) const;
  void write(std::uint64_t offset, Span<const std::byte> data);
  /// Gives back what was reserved beyond `size` bytes.
  void truncate(std::uint64_t size);
  void sync();
  /// Lets the disk begin with what was written, without waiting: sync() will have less left to do.
  void start_writeback();
  void close();
  /// Disk space for bytes begin .. end-1, without changing the size of the file. Where the file system cannot reserve,
  /// the free space is asked for instead. Not enough is an Error that every rank may be told: FILE: needs X MB, ...
  void reserve(std::uint64_t begin, std::uint64_t end);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// Removes what a killed run left under a temporary name: a file, or a link, never what it leads to. Nothing else.
void remove_leftover(const std::filesystem::path& temporary);

/// Gives the synced file `temporary` its final name, for good: the directory is synced too.
void commit_file(const std::filesystem::path& temporary, const std::filesystem::path& file);

}  // namespace shoal::io
