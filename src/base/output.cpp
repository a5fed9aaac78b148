// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/output.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "shoal/base/heartbeat.hpp"

namespace shoal::output {

namespace {

constexpr std::chrono::seconds log_takes(1);
constexpr int beats_every_ms = 100;

/// Returns the reason if not all was written; empty if it was.
std::string write_all(int to, std::string_view words) {
  while (!words.empty()) {
    const ssize_t written = ::write(to, words.data(), words.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return std::strerror(errno);
    words.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

/// The log of this process. Whoever waits for its lock never waits for the file system, which may hang.
class Log {
 public:
  void keep() {
    const std::lock_guard lock(mutex_);
    keeps_ = says_problems_ = true;
  }

  void open(const std::string& file) {
    const std::lock_guard lock(mutex_);
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
    file_ = file;
    keeps_ = false;
    if (file.empty()) says_problems_ = false;
  }

  /// The lines that are to be appended to the file, after open() also those that were kept; empty if there are none.
  std::string due(std::string_view lines) {
    const std::lock_guard lock(mutex_);
    if (keeps_) kept_ += lines;
    if (keeps_ || file_.empty()) return {};
    return std::exchange(kept_, {}).append(lines);
  }

  void append(std::string_view lines) {
    const auto [descriptor, problem] = opened();
    const std::string failed = descriptor < 0 ? problem : write_all(descriptor, lines);
    if (!failed.empty()) end(failed);
  }

 private:
  /// The file's descriptor; a negative one and why it cannot be opened.
  std::pair<int, std::string> opened() {
    std::string file;
    {
      const std::lock_guard lock(mutex_);
      if (descriptor_ >= 0) return {descriptor_, {}};
      file = file_;
    }
    const int descriptor = ::open(file.c_str(), O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor < 0) return {-1, std::strerror(errno)};
    const std::lock_guard lock(mutex_);
    if (descriptor_ >= 0) {  // another thread was as fast
      ::close(descriptor);
    } else {
      descriptor_ = descriptor;
    }
    return {descriptor_, {}};
  }

  void end(const std::string& problem) {
    std::string file;
    {
      const std::lock_guard lock(mutex_);
      file = std::exchange(file_, {});  // the descriptor stays open: another thread may be about to use it
      if (file.empty() || !says_problems_) return;
    }
    write_all(STDERR_FILENO,
              "shoal: warning: " + file + ": cannot be written: " + problem + "; the run goes on without a log there\n");
  }

  std::mutex mutex_;
  bool keeps_ = false, says_problems_ = false;
  std::string kept_, file_;  // no file: no log
  int descriptor_ = -1;      // negative: not opened
};

/// Never destroyed: threads may still print when the process ends.
Log& log_of_process() {
  static Log* const log = new Log;
  return *log;
}

struct Copy {
  std::string lines;
  std::mutex mutex;
  std::condition_variable written;
  bool done = false;
};

/// In a thread of its own, since the log's file system may be what hangs.
void append_within(std::string lines) {
  const auto copy = std::make_shared<Copy>();
  copy->lines = std::move(lines);
  try {
    std::thread([copy] {
      log_of_process().append(copy->lines);
      const std::lock_guard lock(copy->mutex);
      copy->done = true;
      copy->written.notify_all();
    }).detach();
  } catch (const std::system_error&) {
    return;  // no more threads; standard error has the lines
  }
  std::unique_lock lock(copy->mutex);
  copy->written.wait_for(lock, log_takes, [&] { return copy->done; });
}

}  // namespace

void print(std::string_view lines) {
  draw(lines);
  Log& log = log_of_process();
  if (const std::string due = log.due(lines); !due.empty()) log.append(due);
}

void complain(std::string_view lines) {
  write_all(STDERR_FILENO, lines);  // not through stdio, whose lock another thread may hold
  if (std::string due = log_of_process().due(lines); !due.empty()) append_within(std::move(due));
}

void draw(std::string_view words) {
  std::fflush(stdout);
  while (!words.empty()) {
    pollfd ready{STDOUT_FILENO, POLLOUT, 0};
    const int found = poll(&ready, 1, beats_every_ms);
    heartbeat::beat();
    if (found <= 0) continue;
    const ssize_t written = ::write(STDOUT_FILENO, words.data(), std::min<std::size_t>(words.size(), PIPE_BUF));
    if (written < 0 && errno != EINTR && errno != EAGAIN) return;  // nobody reads it: Interrupts ends the run
    words.remove_prefix(written < 0 ? 0 : static_cast<std::size_t>(written));
  }
}

void keep() { log_of_process().keep(); }

void log_to(const std::string& file) {
  Log& log = log_of_process();
  log.open(file);
  if (const std::string kept = log.due({}); !kept.empty()) log.append(kept);
}

}  // namespace shoal::output
