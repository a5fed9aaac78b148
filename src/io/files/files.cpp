// SPDX-License-Identifier: Apache-2.0
#include "io/files/files.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <utility>

#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/mpi_free.hpp"
#include "shoal/device/memory.hpp"

namespace shoal::io {

namespace {

/// A call reads or writes at most this many bytes, so that there are heartbeats even if the disk is slow.
constexpr std::size_t largest_call = std::size_t{64} << 20U;

[[noreturn]] void fail_with_errno(const std::filesystem::path& path, const char* what) {
  throw SystemError(text(path.string(), ": ", what, ": ", std::strerror(errno)));
}

/// Checks that the system can read and write memory from `data` on. Otherwise it would only say "Bad address".
void require_on_host(const std::filesystem::path& path, const void* data) {
  require(!device::holds(data), path.string(),
          ": the data lie in the device's memory; device::in_pieces() passes them through the host's");
}

int flags_of(File::Mode mode) {
  switch (mode) {
    case File::Mode::read: return O_RDONLY;
    case File::Mode::write: return O_RDWR;
    case File::Mode::write_only: return O_WRONLY;
    case File::Mode::create:
    case File::Mode::create_new: return O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW;
    case File::Mode::unnamed: return O_RDWR | O_TMPFILE;
  }
  return O_RDONLY;
}

std::string megabytes(double bytes) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, bytes < 1e7 ? "%.1f MB" : "%.0f MB", bytes * 1e-6);
  return buffer;
}

/// Checks the limit on file sizes: the system compares only when a file's size changes, not when space is reserved.
void check_size_limit(const std::filesystem::path& path, std::uint64_t bytes) {
  struct rlimit most {};
  if (::getrlimit(RLIMIT_FSIZE, &most) != 0 || most.rlim_cur == RLIM_INFINITY || most.rlim_cur >= bytes) return;
  throw Error(Exit::failed, Seen::everywhere,
              text(path.string(), ": File too large: needs ", megabytes(static_cast<double>(bytes)),
                   ", but the limit on file sizes (ulimit -f) is ", megabytes(static_cast<double>(most.rlim_cur))));
}

/// Some file systems know no files without a name: the name is removed at once.
int open_and_unlink(const std::filesystem::path& directory) {
  const std::filesystem::path name = directory / text(".shoal.", ::getpid(), ".unnamed");
  const int descriptor = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (descriptor >= 0) ::unlink(name.c_str());
  return descriptor;
}

}  // namespace

File::File(const std::filesystem::path& path, Mode mode) : path_(path) {
  if (mode == Mode::unnamed) {
    descriptor_ = ::open(path.c_str(), flags_of(mode) | O_CLOEXEC, 0600);
    if (descriptor_ < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) descriptor_ = open_and_unlink(path);
    if (descriptor_ < 0) fail_with_errno(path, "no file can be created there");
    return;
  }
  const bool creates = mode == Mode::create || mode == Mode::create_new;
  descriptor_ = ::open(path.c_str(), flags_of(mode) | O_CLOEXEC, 0666);
  if (descriptor_ < 0 && errno == EEXIST && mode == Mode::create) {
    remove_leftover(path);
    descriptor_ = ::open(path.c_str(), flags_of(mode) | O_CLOEXEC, 0666);
  }
  if (descriptor_ < 0) fail_with_errno(path, creates ? "cannot be created" : "cannot be opened");
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

File::File(File&& other) noexcept : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

File File::duplicate() const {
  File copy;
  copy.path_ = path_;
  copy.descriptor_ = ::fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
  if (copy.descriptor_ < 0) fail_with_errno(path_, "cannot be opened once more");
  return copy;
}

void File::require_there() const {
  struct stat named {
  }, held{};
  const bool there = ::lstat(path_.c_str(), &named) == 0 && ::fstat(descriptor_, &held) == 0 &&
                     named.st_ino == held.st_ino && named.st_dev == held.st_dev;
  require(there, path_.string(), ": was removed or replaced while it was written");
}

std::uint64_t File::size() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail_with_errno(path_, "its size cannot be read");
  require(S_ISREG(status.st_mode), path_.string(), ": not a regular file");
  return static_cast<std::uint64_t>(status.st_size);
}

FileId File::id() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail_with_errno(path_, "cannot be examined");
  return {status.st_dev, status.st_ino};
}

void File::read(std::uint64_t offset, Span<std::byte> data) const {
  require_on_host(path_, data.data());
  const MpiFree mpi_free;
  while (!data.empty()) {
    const ssize_t done = ::pread(descriptor_, data.data(), std::min(data.size(), largest_call), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_with_errno(path_, "cannot be read");
    require(done > 0, path_.string(), ": ends at byte ", offset, ", ", data.size(), " more are needed");
    offset += static_cast<std::uint64_t>(done);
    data = data.subspan(static_cast<std::size_t>(done));
    heartbeat::beat();
  }
}

void File::write(std::uint64_t offset, Span<const std::byte> data) {
  require_on_host(path_, data.data());
  if (write_is_to_fail()) {
    errno = EIO;
    fail_with_errno(path_, "cannot be written");
  }
  const MpiFree mpi_free;
  while (!data.empty()) {
    const ssize_t done = ::pwrite(descriptor_, data.data(), std::min(data.size(), largest_call), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_with_errno(path_, "cannot be written");
    offset += static_cast<std::uint64_t>(done);
    data = data.subspan(static_cast<std::size_t>(done));
    heartbeat::beat();
  }
}

void File::truncate(std::uint64_t size) {
  if (::ftruncate(descriptor_, static_cast<off_t>(size)) != 0) fail_with_errno(path_, "cannot be truncated");
}

void File::sync() {
  const MpiFree mpi_free;
  if (::fsync(descriptor_) != 0) fail_with_errno(path_, "cannot be synced");
}

void File::start_writeback() {
  // A hint: if the file system ignores it, sync() does all the work.
  ::sync_file_range(descriptor_, 0, 0, SYNC_FILE_RANGE_WRITE);
}

void File::close() {
  if (descriptor_ >= 0 && ::close(std::exchange(descriptor_, -1)) != 0) fail_with_errno(path_, "cannot be closed");
}

void File::reserve(std::uint64_t begin, std::uint64_t end) {
  check_size_limit(path_, end);
  int status = -1;
  do {
    status = ::fallocate(descriptor_, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin), static_cast<off_t>(end - begin));
  } while (status != 0 && errno == EINTR);
  if (status == 0) return;
  const int error = errno;
  struct statvfs disk {};
  if (::fstatvfs(descriptor_, &disk) != 0) fail_with_errno(path_, "the free space of its disk cannot be read");
  const auto free = static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
  const bool unsupported = error == EOPNOTSUPP || error == ENOSYS;
  if (unsupported && free >= end - begin) return;
  const char* limit = unsupported || error == ENOSPC ? "" : std::strerror(error);  // a quota, or a limit on file sizes
  throw Error(Exit::failed, Seen::everywhere,
              text(path_.string(), ": needs ", megabytes(static_cast<double>(end - begin)), ", the disk has ",
                   megabytes(static_cast<double>(free)), " free", *limit == 0 ? "" : " (", limit, *limit == 0 ? "" : ")"));
}

void remove_leftover(const std::filesystem::path& temporary) {
  struct stat status {};
  if (::lstat(temporary.c_str(), &status) != 0)
    return;  // nothing is there, or it cannot be examined: then creating the file fails
  require(S_ISREG(status.st_mode) || S_ISLNK(status.st_mode), temporary.string(),
          ": exists and is not a regular file; remove it");
  if (::unlink(temporary.c_str()) != 0 && errno != ENOENT) fail_with_errno(temporary, "cannot be removed");
}

void commit_file(const std::filesystem::path& temporary, const std::filesystem::path& file) {
  if (std::rename(temporary.c_str(), file.c_str()) != 0)
    fail_with_errno(file, "the complete file cannot be renamed to this");
  const std::filesystem::path directory = file.has_parent_path() ? file.parent_path() : ".";
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail_with_errno(directory, "cannot be opened");
  const int status = ::fsync(descriptor);
  const int error = errno;
  ::close(descriptor);
  errno = error;
  if (status != 0 && error != EINVAL)
    fail_with_errno(directory, "cannot be synced");  // EINVAL: the file system cannot sync directories
}

}  // namespace shoal::io
