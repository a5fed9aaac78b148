// SPDX-License-Identifier: Apache-2.0
// A lock on a directory, so that only one run at a time writes to it. The lock is a file in the directory, created in a way
// in which only one process can succeed: on a local disk as well as on NFS and Lustre, where flock() cannot be relied on.
// The file names its holder, which touches it every few seconds.
//
// If the holder is killed, the lock file stays. If the holder ran on this machine, its process is looked up; of other
// machines' holders only the touches are visible. A run that sees the file being touched is refused. If the file is not
// touched, the run waits until the last touch, by the clock of the file system, is longer ago than the holder's own timeout.
// Then it takes the lock over.
//
// [Note: One successor] The lock of a dead process has a random token T. Of the processes that find it, the one that creates
// the file shoal.lock.T is the successor. This is a lock file like the other, so a successor that dies has a successor, too:
//
//     shoal.lock (token T, dead) <- shoal.lock.T (token U, dead) <- shoal.lock.U (token V): V's process takes the lock over
//
// The last of such a chain renames its file to the name before, and so on, until it is shoal.lock. A lock exists at every
// moment. A holder that was only slow finds another file under the lock's name, and why_lost() returns this reason.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace shoal::io {

/// "shoal.lock".
extern const char* const lock_name;

class DirectoryLock {
 public:
  /// what: the directory as the user named it, for messages: "output.dir = out". timeout_s: after this time without a touch
  /// others may take this lock over. note: called with a line if try_take() starts to wait for a stale lock, and if it takes
  /// one over.
  DirectoryLock(const std::filesystem::path& directory, const std::string& what, double timeout_s,
                const std::function<void(const std::string&)>& note);
  /// Releases the lock if it is still this process's.
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  /// Tries once, without waiting. Returns true if the lock is held now; false if it is not known yet whether the holder is
  /// alive, or if it has not been silent for long enough: then call it again, every poll_s() seconds. bad_input() if another
  /// run holds the lock.
  bool try_take();
  double poll_s() const;

  /// Why this process no longer holds the lock (the directory or the lock was removed, or another run took the lock over);
  /// empty while it does. Checked every few seconds by the thread that touches the file; now: checked in this call, too.
  std::string why_lost(bool now = false);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shoal::io
