// SPDX-License-Identifier: Apache-2.0
// A lock that this process holds (io/directory_lock.hpp). A thread touches the lock file at regular intervals and checks
// that it is still this process's file.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

namespace shoal::io {

class HeldLock {
 public:
  /// descriptor: the open lock file `file` of `directory`; closed by the destructor. what: the directory as the user named
  /// it, for messages.
  HeldLock(int descriptor, std::filesystem::path directory, std::filesystem::path file, std::string what, double touch_s);
  /// Removes the lock file if it is still this process's.
  ~HeldLock();
  HeldLock(const HeldLock&) = delete;
  HeldLock& operator=(const HeldLock&) = delete;

  /// As DirectoryLock::why_lost().
  std::string why_lost(bool now);

 private:
  void touch_until_stopped();
  std::string check() const;

  int descriptor_;
  std::filesystem::path directory_, file_;
  std::string what_;
  double touch_s_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  bool stop_ = false;
  std::string lost_;
  std::thread thread_;  // started last
};

}  // namespace shoal::io
