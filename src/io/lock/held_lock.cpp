// SPDX-License-Identifier: Apache-2.0
#include "io/lock/held_lock.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <system_error>
#include <utility>

#include "io/lock/lock_file.hpp"
#include "shoal/base/error.hpp"

namespace shoal::io {

namespace {

std::string name_of_other_holder(const std::filesystem::path& file) {
  try {
    const std::optional<FoundLock> other = find_lock(file);
    return other ? name_of(*other) : "which has ended";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

HeldLock::HeldLock(int descriptor, std::filesystem::path directory, std::filesystem::path file, std::string what,
                   double touch_s)
    : descriptor_(descriptor),
      directory_(std::move(directory)),
      file_(std::move(file)),
      what_(std::move(what)),
      touch_s_(touch_s),
      thread_([this] { touch_until_stopped(); }) {}

HeldLock::~HeldLock() {
  {
    const std::lock_guard guard(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
  if (check().empty()) ::unlink(file_.c_str());
  ::close(descriptor_);
}

/// The thread. A touch that fails is not a loss: the lock is lost only when another process has it.
void HeldLock::touch_until_stopped() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, std::chrono::duration<double>(touch_s_), [this] { return stop_; }) && lost_.empty()) {
    lock.unlock();
    ::futimens(descriptor_, nullptr);
    const std::string reason = check();
    lock.lock();
    if (lost_.empty()) lost_ = reason;
  }
}

/// Returns why the file under the lock's name is not the open one; empty if it is, or if the file system does not answer.
std::string HeldLock::check() const {
  struct stat here {
  }, held{};
  if (::fstat(descriptor_, &held) != 0 && errno != ESTALE) return "";
  if (::lstat(file_.c_str(), &here) == 0) {
    if (here.st_ino == held.st_ino && here.st_dev == held.st_dev) return "";
    return text(what_, ": was taken over by another run (", name_of_other_holder(file_), ")");
  }
  if (errno != ENOENT && errno != ENOTDIR && errno != ESTALE) return "";
  std::error_code ignored;
  return std::filesystem::is_directory(directory_, ignored)
             ? text(what_, ": the lock, ", file_.string(), ", was removed while this run held it")
             : text(what_, ": was removed while this run wrote to it");
}

std::string HeldLock::why_lost(bool now) {
  {
    const std::lock_guard guard(mutex_);
    if (!lost_.empty() || !now) return lost_;
  }
  const std::string reason = check();
  const std::lock_guard guard(mutex_);
  if (lost_.empty()) lost_ = reason;
  return lost_;
}

}  // namespace shoal::io
