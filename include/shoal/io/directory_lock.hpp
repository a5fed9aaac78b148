// SPDX-License-Identifier: Apache-2.0
// A directory that one run at a time may write to. The lock is a file in it, made so that only one can make it: on a local
// disk, on NFS and on Lustre alike, where flock() means little. It says who holds it, and is touched every few seconds.
//
// A lock outlives a holder that was killed. One of this machine is looked up among its processes; of others only the
// touches are seen. Who finds a lock that is touched is refused; who finds one that is not waits until the last touch is
// longer ago than the holder's own timeout, by the clock of the file system, and then takes its place.
//
// [Note: One heir] Of several that find a lock stale, the one that makes the file shoal.lock.TOKEN.1 may replace it; TOKEN
// is the stale lock's own and never used again. Should that one die on the way, the next is who makes shoal.lock.TOKEN.2,
// and so on: each name can be made once. The lock is replaced by a rename; a holder that was slow and not dead finds
// another's token in it, and is told so by why_lost().
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
  /// what: the directory as the user named it, for messages: "output.dir = out". timeout_s: after how long without a touch
  /// others may take this lock over. note hears, once, that a stale lock is waited for, and that one was taken over.
  DirectoryLock(const std::filesystem::path& directory, const std::string& what, double timeout_s,
                const std::function<void(const std::string&)>& note);
  /// Releases it, where it is still this one's.
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  /// One look, which takes poll_s() at most: true once the lock is held; false where it is not known yet whether the holder
  /// lives, or how long ago it died: to be called again. bad_input() when another run holds it.
  bool try_take();
  double poll_s() const;

  /// Why the directory is this one's no longer: it was removed, or another took the lock over; empty while it is held.
  /// Looked up every few seconds by the thread that touches the file; `now`: looked up in this call.
  std::string why_lost(bool now = false);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shoal::io
