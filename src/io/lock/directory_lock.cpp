// SPDX-License-Identifier: Apache-2.0
#include "shoal/io/directory_lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "io/lock/held_lock.hpp"
#include "io/lock/lock_file.hpp"
#include "shoal/base/error.hpp"

namespace shoal::io {

namespace fs = std::filesystem;

const char* const lock_name = "shoal.lock";

namespace {

using Clock = std::chrono::steady_clock;

constexpr int touches_to_wait = 3;             // a living holder touches its lock within this many of its intervals
constexpr std::size_t most_successors = 1000;  // names that lead in a circle, from another program, would have no end

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::int64_t touched_ns(const struct stat& status) {
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

/// Creates a file that must not exist yet. Returns its descriptor, or -1 with errno set.
int make_new(const fs::path& file) {
  return ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
}

bool write_synced(int descriptor, const std::string& content) {
  return ::write(descriptor, content.data(), content.size()) == static_cast<ssize_t>(content.size()) &&
         ::fsync(descriptor) == 0;
}

}  // namespace

struct DirectoryLock::State {
  fs::path directory, file;
  std::string what;
  LockHolder mine;
  std::function<void(const std::string&)> note;
  std::unique_ptr<HeldLock> held;

  // The other run's lock that is being watched: its token, since when, and its last touch at that time.
  std::string watched;
  Clock::time_point watched_since;
  std::int64_t watched_touch = 0;
  bool reported_waiting = false;

  std::vector<FoundLock> chain() const;
  fs::path name_after(const FoundLock& lock) const { return file.string() + "." + lock.holder.token; }
  int create(const fs::path& name) const;
  int claim(const fs::path& name) const;
  bool take_over(const std::vector<FoundLock>& stale);
  bool examine(const std::vector<FoundLock>& locks);
  void hold(int descriptor) { held = std::make_unique<HeldLock>(descriptor, directory, file, what, mine.touch_s); }
  double age_s(std::int64_t touched) const;
  [[noreturn]] void refuse(const FoundLock& found) const;
  [[noreturn]] void cannot(const std::string& act) const { bad_input(what, ": ", act, ": ", std::strerror(errno)); }
};

void DirectoryLock::State::refuse(const FoundLock& found) const {
  bad_input(what, ": in use by another run: ", name_of(found), " (", file.string(), ")");
}

/// The lock, its successor if it has one, the successor's, and so on. [Note: One successor]
std::vector<FoundLock> DirectoryLock::State::chain() const {
  std::vector<FoundLock> locks;
  std::optional<FoundLock> found = find_lock(file);
  while (found && locks.size() < most_successors) {
    locks.push_back(*found);
    found = find_lock(name_after(*found));
  }
  return locks;
}

/// Creates a lock file of this process. Returns its descriptor, or -1 if there is a file of this name.
int DirectoryLock::State::create(const fs::path& name) const {
  const int made = make_new(name);
  if (made < 0 && errno == EEXIST) return -1;
  if (made < 0) cannot("not writable");
  if (write_synced(made, lock_text(mine))) return made;
  const int error = errno;
  ::unlink(name.c_str());
  ::close(made);
  errno = error;
  cannot("cannot be written");
}

/// The same. The file gets the name (by a hard link) only when its content is complete, so that the holder can be looked up
/// even if it is killed at once. On file systems without hard links it is written in place.
int DirectoryLock::State::claim(const fs::path& name) const {
  const fs::path unnamed = file.string() + ".new." + mine.token;
  const int made = create(unnamed);
  struct stat status {};
  // A network file system may repeat a request whose answer was lost, and report that the name exists: count the names.
  const bool linked = ::link(unnamed.c_str(), name.c_str()) == 0, taken = !linked && errno == EEXIST;
  const bool named = linked || (::fstat(made, &status) == 0 && status.st_nlink == 2);
  ::unlink(unnamed.c_str());
  if (named) return made;
  ::close(made);
  return taken ? -1 : create(name);
}

/// Decides what to do about a chain whose last lock is another process's. Returns true if it was taken over.
bool DirectoryLock::State::examine(const std::vector<FoundLock>& locks) {
  const FoundLock& found = locks.back();
  const LockHolder& holder = found.holder;
  if (found.readable && holder.process.visible_from(mine.process)) {
    if (comm::is_running(holder.process)) refuse(found);
    return take_over(locks);
  }
  if (watched != holder.token) {
    watched = holder.token;
    watched_since = Clock::now();
    watched_touch = found.touched_ns;
    return false;
  }
  if (watched_touch != found.touched_ns) refuse(found);
  if (seconds_since(watched_since) < touches_to_wait * (holder.touch_s > 0 ? holder.touch_s : mine.touch_s)) return false;
  const double timeout = holder.timeout > 0 ? holder.timeout : mine.timeout;
  const double age = age_s(found.touched_ns);
  if (age > timeout) return take_over(locks);
  if (!std::exchange(reported_waiting, true)) {
    note(text(what, ": locked by another run (", name_of(found), ") that has shown no sign of life for ",
              static_cast<std::int64_t>(std::max(age, 0.0)), " s; waiting until this is ", timeout,
              " s (its comm.timeout)"));
  }
  return false;
}

/// Seconds since then by the clock of the file system, which may differ from this machine's: creates a file and compares.
double DirectoryLock::State::age_s(std::int64_t touched) const {
  const fs::path probe = file.string() + ".clock." + mine.token;
  const int made = make_new(probe);
  if (made < 0) cannot("not writable");
  struct stat status {};
  const bool known = ::fstat(made, &status) == 0;
  const int error = errno;
  ::close(made);
  ::unlink(probe.c_str());
  errno = error;
  if (!known) cannot("the clock of the file system cannot be read");
  return static_cast<double>(touched_ns(status) - touched) * 1e-9;
}

/// [Note: One successor] Returns false if another process is faster.
bool DirectoryLock::State::take_over(const std::vector<FoundLock>& stale) {
  const fs::path claimed = name_after(stale.back());
  const int made = claim(claimed);
  if (made < 0) return false;
  // The name was free, but perhaps because a successor has renamed its file. Then the chain is another one by now.
  std::vector<FoundLock> now = chain();
  if (!now.empty() && now.back().holder.token == mine.token) {
    for (std::size_t i = stale.size(); i > 0; --i) {
      std::rename(name_after(stale[i - 1]).c_str(), i == 1 ? file.c_str() : name_after(stale[i - 2]).c_str());
    }
    now = chain();
  }
  if (now.size() != 1 || now.back().holder.token != mine.token) {
    ::unlink(claimed.c_str());
    ::close(made);
    return false;
  }
  hold(made);
  note(text(what, ": taking over the lock of a run that ended without releasing it (", name_of(stale.back()), ")"));
  return true;
}

DirectoryLock::DirectoryLock(const fs::path& directory, const std::string& what, double timeout_s,
                             const std::function<void(const std::string&)>& note)
    : state_(std::make_unique<State>()) {
  state_->directory = directory;
  state_->file = directory / lock_name;
  state_->what = what;
  state_->mine = holder_of_this_process(timeout_s);
  state_->note = note;
}

DirectoryLock::~DirectoryLock() = default;

bool DirectoryLock::try_take() {
  if (state_->held != nullptr) return true;
  const std::vector<FoundLock> found = state_->chain();
  if (!found.empty()) return state_->examine(found);
  const int made = state_->claim(state_->file);
  if (made >= 0) state_->hold(made);
  return made >= 0;
}

double DirectoryLock::poll_s() const { return std::min(0.5, state_->mine.timeout / 16); }

std::string DirectoryLock::why_lost(bool now) { return state_->held != nullptr ? state_->held->why_lost(now) : ""; }

}  // namespace shoal::io
