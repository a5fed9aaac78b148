// SPDX-License-Identifier: Apache-2.0
// A library for LD_PRELOAD that makes system calls on files fail, as a full or broken disk does. Environment variables
// choose the calls:
//   SHOAL_FAIL_BELOW   a directory: only calls on paths below it, or on files opened there, count
//   SHOAL_FAIL_RANK    the rank (PMI_RANK) whose calls fail; without PMI_RANK a process is rank 0; -1: all ranks
//   SHOAL_FAIL_CALL    open | read | write | fsync | rename | ftruncate | fallocate | opendir | close | mkdir
//                      (opendir: also open with O_DIRECTORY, as std::filesystem lists directories)
//   SHOAL_FAIL_AT      the k-th of these calls fails, k = 1, 2, ...
//   SHOAL_FAIL_LASTS   1: all later ones fail, too
//   SHOAL_FAIL_ERRNO   the value of errno after a failure; 0: the call does not return, as on a file system whose server is
//                      gone, and the process is in state D meanwhile
//   SHOAL_FAIL_THEN    a directory: as soon as SHOAL_FAIL_LOG exists, no call of any rank on paths below it returns
//   SHOAL_FAIL_LOG     a file that gets a line (rank, call, path) for each failure; without SHOAL_FAIL_CALL, for
//                      each call
// Calls that the C library makes itself, such as those of fwrite, do not fail; fopen does, as `open`.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

/// Returns the function of this name in the libraries loaded after this one.
template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

struct Plan {
  const char* below = std::getenv("SHOAL_FAIL_BELOW");
  const char* call = std::getenv("SHOAL_FAIL_CALL");
  const char* log = std::getenv("SHOAL_FAIL_LOG");
  const char* then = std::getenv("SHOAL_FAIL_THEN");
  long at = number("SHOAL_FAIL_AT", 1);
  int error = static_cast<int>(number("SHOAL_FAIL_ERRNO", EIO));
  long rank = number("PMI_RANK", 0);
  bool lasts = number("SHOAL_FAIL_LASTS", 0) != 0;
  long failing_rank = number("SHOAL_FAIL_RANK", 0);
  bool mine = failing_rank == -1 || rank == failing_rank;
  std::atomic<long> seen{0};

  static long number(const char* name, long otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::atol(text);
  }
};

Plan& plan() {
  static Plan the_plan;
  return the_plan;
}

void note(const char* call, const char* path) {
  if (plan().log == nullptr) return;
  char line[4200];
  const int length = std::snprintf(line, sizeof line, "%ld %s %s\n", plan().rank, call, path);
  const int file = real<int(const char*, int, ...)>("open")(plan().log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) return;
  static_cast<void>(real<ssize_t(int, const void*, size_t)>("write")(file, line, static_cast<size_t>(length)));
  real<int(int)>("close")(file);
}

/// The thread is in state D as long as the child lives that it has made with vfork(). If the thread is killed, the kernel
/// kills the child.
[[noreturn]] void block() {
  while (true) {
    if (vfork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      while (true) pause();
    }
  }
}

bool is_below(const char* path, const char* directory) {
  return directory != nullptr && path != nullptr && std::strncmp(path, directory, std::strlen(directory)) == 0;
}

/// Returns true if this call must fail, and sets errno.
bool fails(const char* call, const char* path) {
  Plan& p = plan();
  if (is_below(path, p.then) && access(p.log, F_OK) == 0) block();
  if (!is_below(path, p.below)) return false;
  if (p.call == nullptr) note(call, path);
  if (p.call == nullptr || !p.mine || std::strcmp(call, p.call) != 0) return false;
  const long k = ++p.seen;
  if (k < p.at || (k > p.at && !p.lasts)) return false;
  note(call, path);
  if (p.error == 0) block();
  errno = p.error;
  return true;
}

bool fails(const char* call, int descriptor) {
  if (plan().below == nullptr) return false;
  const int before = errno;
  char link[32], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  errno = before;
  if (length < 0) return false;
  path[length] = '\0';
  return fails(call, path);
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
}

}  // namespace

#define SHOAL_WITH_MODE(result)                  \
  va_list arguments;                             \
  va_start(arguments, flags);                    \
  const mode_t mode = mode_of(flags, arguments); \
  va_end(arguments);                             \
  return fails((flags & O_DIRECTORY) != 0 ? "opendir" : "open", path) ? -1 : (result)

extern "C" {

int open(const char* path, int flags, ...) { SHOAL_WITH_MODE(real<int(const char*, int, ...)>("open")(path, flags, mode)); }
int open64(const char* path, int flags, ...) {
  SHOAL_WITH_MODE(real<int(const char*, int, ...)>("open64")(path, flags, mode));
}
int openat(int at, const char* path, int flags, ...) {
  SHOAL_WITH_MODE(real<int(int, const char*, int, ...)>("openat")(at, path, flags, mode));
}
int openat64(int at, const char* path, int flags, ...) {
  SHOAL_WITH_MODE(real<int(int, const char*, int, ...)>("openat64")(at, path, flags, mode));
}
FILE* fopen(const char* path, const char* mode) {
  return fails("open", path) ? nullptr : real<FILE*(const char*, const char*)>("fopen")(path, mode);
}
FILE* fopen64(const char* path, const char* mode) {
  return fails("open", path) ? nullptr : real<FILE*(const char*, const char*)>("fopen64")(path, mode);
}
int close(int file) {
  // On Linux a close() that fails closes the descriptor, too.
  const bool failing = fails("close", file);
  const int error = errno, status = real<int(int)>("close")(file);
  if (!failing) return status;
  errno = error;
  return -1;
}
ssize_t read(int file, void* data, size_t bytes) {
  return fails("read", file) ? -1 : real<ssize_t(int, void*, size_t)>("read")(file, data, bytes);
}
ssize_t pread(int file, void* data, size_t bytes, off_t at) {
  return fails("read", file) ? -1 : real<ssize_t(int, void*, size_t, off_t)>("pread")(file, data, bytes, at);
}
ssize_t pread64(int file, void* data, size_t bytes, off64_t at) {
  return fails("read", file) ? -1 : real<ssize_t(int, void*, size_t, off64_t)>("pread64")(file, data, bytes, at);
}
ssize_t write(int file, const void* data, size_t bytes) {
  return fails("write", file) ? -1 : real<ssize_t(int, const void*, size_t)>("write")(file, data, bytes);
}
ssize_t writev(int file, const iovec* parts, int count) {
  return fails("write", file) ? -1 : real<ssize_t(int, const iovec*, int)>("writev")(file, parts, count);
}
ssize_t pwrite(int file, const void* data, size_t bytes, off_t at) {
  return fails("write", file) ? -1 : real<ssize_t(int, const void*, size_t, off_t)>("pwrite")(file, data, bytes, at);
}
ssize_t pwrite64(int file, const void* data, size_t bytes, off64_t at) {
  return fails("write", file) ? -1 : real<ssize_t(int, const void*, size_t, off64_t)>("pwrite64")(file, data, bytes, at);
}
int fsync(int file) { return fails("fsync", file) ? -1 : real<int(int)>("fsync")(file); }
int fdatasync(int file) { return fails("fsync", file) ? -1 : real<int(int)>("fdatasync")(file); }
int ftruncate(int file, off_t size) {
  return fails("ftruncate", file) ? -1 : real<int(int, off_t)>("ftruncate")(file, size);
}
int ftruncate64(int file, off64_t size) {
  return fails("ftruncate", file) ? -1 : real<int(int, off64_t)>("ftruncate64")(file, size);
}
int fallocate(int file, int mode, off_t at, off_t bytes) {
  return fails("fallocate", file) ? -1 : real<int(int, int, off_t, off_t)>("fallocate")(file, mode, at, bytes);
}
int fallocate64(int file, int mode, off64_t at, off64_t bytes) {
  return fails("fallocate", file) ? -1 : real<int(int, int, off64_t, off64_t)>("fallocate64")(file, mode, at, bytes);
}
int rename(const char* from, const char* to) {
  return fails("rename", to) ? -1 : real<int(const char*, const char*)>("rename")(from, to);
}
int mkdir(const char* path, mode_t mode) {
  return fails("mkdir", path) ? -1 : real<int(const char*, mode_t)>("mkdir")(path, mode);
}
DIR* opendir(const char* path) { return fails("opendir", path) ? nullptr : real<DIR*(const char*)>("opendir")(path); }

}  // extern "C"
