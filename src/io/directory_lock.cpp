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

#include "held_lock.hpp"
#include "lock_file.hpp"
#include "shoal/base/error.hpp"

namespace shoal::io {

namespace fs = std::filesystem;

const char* const lock_name = "shoal.lock";

namespace {

using Clock = std::chrono::steady_clock;

constexpr int touches_to_wait = 3;  // a living holder touches its lock within this many of its intervals

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::int64_t touched_ns(const struct stat& status) {
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

/// Creates a file that must not exist yet. Returns its descriptor, or -1 with errno set.
int make_new(const fs::path& file) {
  return ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
}

/// Closes and removes a file; errno stays as it was.
void give_up(int descriptor, const fs::path& file) {
  const int error = errno;
  ::unlink(file.c_str());
  ::close(descriptor);
  errno = error;
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

  bool make();
  bool make_in_place();
  bool examine(const FoundLock& found);
  bool take_over(const FoundLock& found);
  bool replace(int marker_descriptor, const fs::path& marker, const std::string& token);
  void hold(int descriptor) { held = std::make_unique<HeldLock>(descriptor, directory, file, what, mine.touch_s); }
  double age_s(std::int64_t touched) const;
  [[noreturn]] void refuse(const FoundLock& found) const;
  [[noreturn]] void cannot(const std::string& act) const { bad_input(what, ": ", act, ": ", std::strerror(errno)); }
};

void DirectoryLock::State::refuse(const FoundLock& found) const {
  bad_input(what, ": in use by another run: ", name_of(found), " (", file.string(), ")");
}

/// Takes a lock that nobody holds. The file gets the lock's name (by a hard link) only when its content is complete, so that
/// the holder can be looked up even if it is killed at once. On file systems without hard links it is written in place.
bool DirectoryLock::State::make() {
  const fs::path unnamed = file.string() + ".new." + mine.token;
  const int made = make_new(unnamed);
  if (made < 0) cannot("not writable");
  if (!write_synced(made, lock_text(mine))) {
    give_up(made, unnamed);
    cannot("cannot be written");
  }
  struct stat status {};
  // A network file system may repeat a request whose answer was lost, and report that the name exists: count the names.
  const bool linked = ::link(unnamed.c_str(), file.c_str()) == 0, taken = !linked && errno == EEXIST;
  const bool named = linked || (::fstat(made, &status) == 0 && status.st_nlink == 2);
  if (named) {
    ::unlink(unnamed.c_str());
    hold(made);
    return true;
  }
  give_up(made, unnamed);
  return !taken && make_in_place();
}

bool DirectoryLock::State::make_in_place() {
  const int made = make_new(file);
  if (made < 0 && errno == EEXIST) return false;
  if (made < 0) cannot("not writable");
  if (!write_synced(made, lock_text(mine))) {
    give_up(made, file);
    cannot("cannot be written");
  }
  hold(made);
  return true;
}

/// Decides what to do about another process's lock. Returns true if it was taken over.
bool DirectoryLock::State::examine(const FoundLock& found) {
  const LockHolder& holder = found.holder;
  if (found.readable && holder.process.visible_from(mine.process)) {
    if (comm::is_running(holder.process)) refuse(found);
    return take_over(found);
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
  if (age > timeout) return take_over(found);
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
bool DirectoryLock::State::take_over(const FoundLock& found) {
  const std::string markers = file.string() + "." + found.holder.token + ".";
  int number = 1, descriptor = -1;
  while ((descriptor = make_new(markers + std::to_string(number))) < 0) {
    if (errno != EEXIST) cannot("not writable");
    struct stat status {};
    if (::lstat((markers + std::to_string(number)).c_str(), &status) != 0) return false;
    if (age_s(touched_ns(status)) <= mine.timeout) return false;
    ++number;
  }
  if (!replace(descriptor, markers + std::to_string(number), found.holder.token)) return false;
  while (--number > 0) ::unlink((markers + std::to_string(number)).c_str());
  note(text(what, ": taking over the lock of a run that ended without releasing it (", name_of(found), ")"));
  return true;
}

/// Writes the marker file and renames it to the lock's name, so that a lock exists at every moment.
bool DirectoryLock::State::replace(int marker_descriptor, const fs::path& marker, const std::string& token) {
  const auto held_by = [&](const std::string& one) {
    const std::optional<FoundLock> now = find_lock(file);
    return now && now->holder.token == one;
  };
  // Once the successor has renamed its marker, that name can be created again. Then the lock has another token.
  const bool first = held_by(token), written = first && write_synced(marker_descriptor, lock_text(mine));
  const int error = errno;
  if (written) std::rename(marker.c_str(), file.c_str());
  if (written && held_by(mine.token)) {
    hold(marker_descriptor);
    return true;
  }
  ::unlink(marker.c_str());
  ::close(marker_descriptor);
  errno = error;
  if (first && !written) cannot("cannot be written");
  return false;
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
  const std::optional<FoundLock> found = find_lock(state_->file);
  return found ? state_->examine(*found) : state_->make();
}

double DirectoryLock::poll_s() const { return std::min(0.5, state_->mine.timeout / 16); }

std::string DirectoryLock::why_lost(bool now) { return state_->held != nullptr ? state_->held->why_lost(now) : ""; }

}  // namespace shoal::io
