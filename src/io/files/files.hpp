// SPDX-License-Identifier: Apache-2.0
// Plain files: complete reads and writes at offsets, reserved disk space, and names that appear only when the content is on
// disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "shoal/base/error.hpp"
#include "shoal/base/types.hpp"

namespace shoal::io {

/// A call of the system failed (fail()). It says nothing about the file's content: the file may be whole.
class SystemError : public Error {
 public:
  explicit SystemError(const std::string& message) : Error(Exit::failed, Seen::here, message) {}
};

/// Identifies a file, whatever its name: its device, then its inode.
using FileId = std::pair<std::uint64_t, std::uint64_t>;

class File {
 public:
  /// create: for temporary names. Creates a new file; removes a file that a killed run left under this name, or a link,
  /// which is never followed. create_new: creates a new file; an existing one is an error.
  /// write_only: for a file of which other nodes write other parts of the same pages. An NFS client that may also read the
  /// file would read the whole page first, and write the whole page back later.
  /// unnamed: a new file in the directory `path`, for reading and writing by this user alone. It has no name, so it is gone
  /// when it is closed, however the program ends.
  enum class Mode { read, write, write_only, create, create_new, unnamed };
  File() = default;
  File(const std::filesystem::path& path, Mode mode);
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;

  const std::filesystem::path& path() const { return path_; }
  /// To be called after the file was renamed: messages use the new name.
  void renamed(const std::filesystem::path& path) { path_ = path; }
  /// fail() if another file has its name now, or none.
  void require_there() const;
  /// The same open file once more, without looking for its name.
  File duplicate() const;
  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  std::uint64_t size() const;
  FileId id() const;
  /// Reads all of `data`; an error if the file ends before. The data are memory of the host, here and in write().
  void read(std::uint64_t offset, Span<std::byte> data) const;
  void write(std::uint64_t offset, Span<const std::byte> data);
  /// Sets the file's size. Space that was reserved beyond it is released.
  void truncate(std::uint64_t size);
  void sync();
  /// Starts writing to disk what was written so far, without waiting, so that sync() has less to do.
  void start_writeback();
  void close();
  /// Reserves disk space for bytes begin .. end-1, without changing the size of the file. If the file system cannot reserve,
  /// only compares with the free space. If there is not enough, throws an Error that is marked as seen everywhere.
  void reserve(std::uint64_t begin, std::uint64_t end);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// Each returns true once after its call in io/injected.hpp: this write, or transfer to a tier, has to fail; this block has
/// to be changed on the disk.
bool write_is_to_fail();
bool transfer_is_to_fail();
bool block_is_to_flip();

/// Removes what a killed run left under a temporary name: a regular file, or a link (not its target). Anything else is an
/// Error.
void remove_leftover(const std::filesystem::path& temporary);

/// Gives the synced file `temporary` its final name, and syncs the directory.
void commit_file(const std::filesystem::path& temporary, const std::filesystem::path& file);

}  // namespace shoal::io
