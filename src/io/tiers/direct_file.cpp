// SPDX-License-Identifier: Apache-2.0
#include "io/tiers/direct_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "io/tiers/aligned_memory.hpp"
#include "shoal/base/error.hpp"
#include "shoal/io/file_system.hpp"

namespace shoal::io {

namespace {

/// Asks the system, and then the disk: some file systems accept the flag, and refuse the first request.
bool make_direct(int file) {
  struct statx status {};
  if (::statx(file, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 && (status.stx_mask & STATX_DIOALIGN) != 0) {
    if (status.stx_dio_offset_align > sector || status.stx_dio_mem_align > sector) return false;
  }
  const int flags = ::fcntl(file, F_GETFL);
  if (::fcntl(file, F_SETFL, flags | O_DIRECT) != 0) return false;
  const AlignedMemory memory = aligned_memory(sector);
  if (::pread(file, memory.get(), sector, 0) >= 0) return true;
  ::fcntl(file, F_SETFL, flags);
  return false;
}

}  // namespace

DirectFile::DirectFile(const std::filesystem::path& directory, std::uint64_t bytes)
    : file_(directory, File::Mode::unnamed), direct_(false) {
  file_.reserve(0, bytes);
  file_.truncate(bytes);
  direct_ = make_direct(file_.descriptor());
}

void DirectFile::forget(std::uint64_t offset, std::uint64_t bytes) const {
  if (direct_) return;
  // Both are hints.
  ::sync_file_range(descriptor(), static_cast<off_t>(offset), static_cast<off_t>(bytes),
                    SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  ::posix_fadvise(descriptor(), static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
}

void DirectFile::flip(std::uint64_t offset) const {
  const AlignedMemory memory = aligned_memory(sector);
  const auto at = static_cast<off_t>(offset / sector * sector);
  require(::pread(descriptor(), memory.get(), sector, at) == static_cast<ssize_t>(sector), "no byte to change");
  memory[offset % sector] ^= std::byte{1};
  require(::pwrite(descriptor(), memory.get(), sector, at) == static_cast<ssize_t>(sector), "a byte cannot be changed");
}

std::vector<std::string> warnings_of(const std::filesystem::path& directory) {
  const std::string type = file_system_of(directory);
  if (type == "tmpfs") return {text(directory.string(), " is in memory (tmpfs): what is offloaded there saves none")};
  for (const char* const shared : {"Lustre", "GPFS", "BeeGFS", "NFS", "CephFS"}) {
    if (type == shared) return {text(directory.string(), " is on other machines (", type, "), and not on a local disk")};
  }
  return {};
}

}  // namespace shoal::io
