// SPDX-License-Identifier: Apache-2.0
#include "app/support/command_output.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/mpi_free.hpp"

namespace shoal::app {

namespace {

using Clock = std::chrono::steady_clock;

/// Reads what the program writes until it closes its output. Returns false if the time is over before.
bool read_until(int from, Clock::time_point end, std::string& to) {
  constexpr int beat_ms = 200;
  std::array<char, 4096> part{};
  while (Clock::now() < end) {
    heartbeat::beat();
    pollfd ready{from, POLLIN, 0};
    if (poll(&ready, 1, beat_ms) <= 0) continue;
    const ssize_t got = read(from, part.data(), part.size());
    if (got == 0) return true;
    if (got > 0) to.append(part.data(), static_cast<std::size_t>(got));
  }
  return false;
}

/// Starts the program with its output in a pipe; `from` is its end for reading. Returns the system's error number.
int start(const std::vector<std::string>& command, pid_t& process, int& from) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return errno;
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  const int error = posix_spawnp(&process, words.front(), &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  from = ends[0];
  if (error != 0) close(from);
  return error;
}

}  // namespace

CommandOutput output_of(const std::vector<std::string>& command, double most_seconds) {
  const MpiFree mpi_free;  // the watchdog answers other ranks meanwhile
  CommandOutput output;
  pid_t process = 0;
  int from = -1;
  if (const int error = start(command, process, from); error != 0) {
    output.problem = error == ENOENT ? "no such program" : std::strerror(error);
    return output;
  }
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(most_seconds));
  const bool in_time = read_until(from, end, output.text);
  close(from);
  if (!in_time) kill(process, SIGKILL);
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  if (!in_time) {
    output.problem = text("no answer within ", most_seconds, " s");
  } else if (status != 0) {
    output.problem = WIFEXITED(status) ? text("ended with exit code ", WEXITSTATUS(status)) : "was killed";
  }
  return output;
}

}  // namespace shoal::app
