// SPDX-License-Identifier: Apache-2.0
#include "shoal/comm/hydra_helper.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "comm/world/printed_pipe.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/output.hpp"
#include "shoal/comm/mpiexec.hpp"
#include "shoal/comm/process.hpp"

namespace shoal::comm {

namespace {

constexpr int look_at_pipes_ms = 250;
constexpr timespec while_rank_ends{0, 1'000'000}, while_mpiexec_ends{0, 20'000'000};
/// Until the proxy has read the exit code; this bounds the life of the helper if it does not.
constexpr int proxy_looks_within = 2000;  // times while_rank_ends: 2 s
/// mpiexec prints what is left and ends; this bounds the life of the helper if it does not.
constexpr int mpiexec_ends_within = 1500;  // times while_mpiexec_ends: 30 s

bool started_by_hydra() { return std::getenv("HYDI_CONTROL_FD") != nullptr && std::getenv("PMI_FD") != nullptr; }

void close_all_but(const std::array<int, 3>& kept) {
  std::vector<int> open;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    open.push_back(std::atoi(entry.path().filename().c_str()));
  }
  for (const int descriptor : open) {
    if (std::find(kept.begin(), kept.end(), descriptor) == kept.end()) close(descriptor);
  }
}

/// A process that ends closes its files first. Its first thread may be a zombie while others still end: until then the
/// parent cannot read an exit code.
bool has_exit_code(const ProcessId& process) {
  if (is_running(process)) return false;
  std::error_code gone;
  std::filesystem::directory_iterator threads("/proc/" + std::to_string(process.number) + "/task", gone);
  return gone || std::distance(begin(threads), end(threads)) <= 1;
}

/// Replaces the words that `ps` shows.
void rename_process(int argc, char** argv) {
  constexpr std::string_view name = "shoal: helper of a rank";
  prctl(PR_SET_NAME, helper_name);
  char* const end = argv[argc - 1] + std::strlen(argv[argc - 1]);
  const auto room = static_cast<std::size_t>(end - argv[0]);
  std::memset(argv[0], 0, room);
  std::memcpy(argv[0], name.data(), std::min(name.size(), room));
}

/// Returns when the rank has closed the other end of its pipe: when it ends.
void wait_for_end(int lifeline, const ProcessId& rank, std::vector<PrintedPipe>& pipes) {
  while (true) {
    pollfd ready{lifeline, POLLIN, 0};
    if (poll(&ready, 1, pipes.empty() ? -1 : look_at_pipes_ms) > 0) return;
    for (PrintedPipe& pipe : pipes) {
      if (pipe.newly_abandoned()) kill(static_cast<pid_t>(rank.number), SIGPIPE);
    }
  }
}

void help(const ProcessId& rank, const std::optional<ProcessId>& proxy, int lifeline) {
  const std::optional<ProcessId> mpiexec = proxy ? mpiexec_of(*proxy) : std::nullopt;
  std::vector<PrintedPipe> pipes;
  if (mpiexec) pipes = pipes_printed_into(*mpiexec);
  wait_for_end(lifeline, rank, pipes);
  while (!has_exit_code(rank)) nanosleep(&while_rank_ends, nullptr);
  close(STDOUT_FILENO);
  for (int i = 0; i < proxy_looks_within && process_state(rank) != '?'; ++i) nanosleep(&while_rank_ends, nullptr);
  close(STDERR_FILENO);
  const bool held =
      std::any_of(pipes.begin(), pipes.end(), [](const PrintedPipe& pipe) { return !pipe.has_other_reader(); });
  for (int i = 0; held && i < mpiexec_ends_within && is_running(*mpiexec); ++i) {
    for (PrintedPipe& pipe : pipes) pipe.newly_abandoned();  // reads what is printed, if nobody else does
    nanosleep(&while_mpiexec_ends, nullptr);
  }
}

}  // namespace

void start_hydra_helper(int argc, char** argv) {
  if (!started_by_hydra()) return;
  const ProcessId rank = this_process();
  const std::optional<ProcessId> proxy = launcher();
  std::array<int, 2> lifeline{};  // nothing is written; this process closes it by ending
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);  // for the helper
  const bool piped = pipe2(lifeline.data(), O_CLOEXEC) == 0;
  const pid_t helper = piped ? fork() : -1;
  if (helper == 0) {
    setsid();  // the proxy sends signals to the rank's process group
    rename_process(argc, argv);
    close_all_but({lifeline[0], STDOUT_FILENO, STDERR_FILENO});
    try {
      help(rank, proxy, lifeline[0]);
    } catch (const std::exception&) {
      // Without memory or /proc it can do nothing. Then hydra acts as the note describes.
    }
    _exit(0);
  }
  const int error = errno;
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (piped) close(lifeline[0]);
  if (helper < 0) {
    output::complain(text("shoal: no helper process (", std::strerror(error),
                          "): after a signal mpiexec may report exit code 0 for this rank\n"));
  }
}

}  // namespace shoal::comm
