// SPDX-License-Identifier: Apache-2.0
#include "shoal/comm/watchdog.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <ctime>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/hang/inquiry.hpp"
#include "comm/hang/rank_processes.hpp"
#include "comm/operations/device_operations.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/mpi_free.hpp"
#include "shoal/base/output.hpp"
#include "shoal/comm/abort.hpp"
#include "shoal/comm/process.hpp"
#include "shoal/comm/wait.hpp"
#include "shoal/comm/world.hpp"

namespace shoal::comm {

namespace {

/// A rank waits this long for a lower rank to report that a third one has died.
constexpr std::chrono::seconds wait_for_lower_rank(3);

/// Time for the launcher to read the message: when it sees a rank fail, it may end without forwarding the rest of the
/// output.
constexpr useconds_t launcher_reads_us = 200'000;

/// Time for MPI_Abort.
constexpr useconds_t abort_takes_us = 3'000'000;

/// Time for the launcher to end all ranks of a machine, and of other nodes, after one has reported that they hang together.
constexpr double launcher_ends_s = 5, launcher_ends_nodes_s = 15;
/// Nodes beyond this many wait no longer than the last of them.
constexpr int most_nodes_in_turn = 20;

/// So that a hang is reported soon after the timeout, the watchdog checks many times while it lasts, but at least once a
/// second.
constexpr double longest_interval_s = 1, checks_per_timeout = 16;

/// A rank that computes gets at least this fraction of a processor's time, however many processes use the processor.
constexpr double least_share = 0.01;

/// Prints the line and ends the process. Standard error may be a pipe to a launcher that has died, hence SIG_IGN.
[[noreturn]] void end(const std::string& line) {
  std::signal(SIGPIPE, SIG_IGN);
  output::complain(line);
  release_device();
  usleep(launcher_reads_us);
  _exit(static_cast<int>(Exit::failed));
}

/// The same, and ends all ranks. Not every launcher ends other nodes when a process has failed (observed with MPICH's
/// hydra), but all obey MPI_Abort. That may not return if the main thread holds a lock.
[[noreturn]] void end_all(const std::string& line) {
  std::signal(SIGPIPE, SIG_IGN);
  output::complain(line);
  std::thread([] { abort_all(static_cast<int>(Exit::failed)); }).detach();
  usleep(abort_takes_us);
  end("");
}

/// If a peer has died, some transports (UCX) abort this process before the watchdog has checked its peers. The abort is
/// delayed until the watchdog has done so: its message names the rank that died, the library's shows only a stack frame.
void delay_abort(int) {
  usleep(3'000'000);
  std::signal(SIGABRT, SIG_DFL);  // no rank has died: abort() continues when this returns
}

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Processor time of this process without that of the calling thread.
double processor_seconds() { return seconds_of(CLOCK_PROCESS_CPUTIME_ID) - seconds_of(CLOCK_THREAD_CPUTIME_ID); }

}  // namespace

struct Watchdog::State {
  State(World& world, double timeout_s, std::function<bool()> on_hang_up)
      : rank(world.all().rank()),
        timeout(timeout_s),
        interval(std::min(longest_interval_s, timeout_s / checks_per_timeout)),
        node(world.topology().node_of[static_cast<std::size_t>(rank)]),
        hosts(world.topology().hosts),
        peers(world),
        inquiry(world, peers, timeout, interval),
        hang_up(std::move(on_hang_up)) {}

  std::string name(int r) const {
    return text("rank ", r, " (", hosts[static_cast<std::size_t>(r)], ", process ", peers.process(r).number, ")");
  }

  std::string names(const std::vector<int>& ranks) const {
    std::string all;
    for (const int r : ranks) all += (all.empty() ? "" : ", ") + name(r);
    return all;
  }

  /// The thread: checks at intervals until `stop` is set.
  void watch() {
    try {
      heartbeat::beat();  // silence counts from here
      double asleep_since = seconds_of(CLOCK_MONOTONIC);
      while (!stopped_within(std::chrono::duration<double>(interval))) {
        forgive_suspension(seconds_of(CLOCK_MONOTONIC) - asleep_since);
        check_launcher();
        check_peers();
        check_processor_time();
        answer_questions();
        const double silence = static_cast<double>(heartbeat::silence_ns()) * 1e-9;
        if (silence > timeout && silence > longest_silence()) end_all(inquiry.report_of_own_hang(silence));
        asleep_since = seconds_of(CLOCK_MONOTONIC);
      }
    } catch (const std::exception& error) {  // an MPI call on this thread, perhaps since a peer has died
      check_peers();
      end_all(text("shoal: ", name(rank), ": ", error.what(), "\n"));
    }
  }

  /// A batch system may suspend a job and continue it an hour later. Then this thread has slept for as long as the main one.
  void forgive_suspension(double slept) {
    if (slept < interval + timeout / 2) return;
    heartbeat::beat();
    inquiry.continued();
  }

  /// A rank that hangs is reported by another one that is alive, which can ask all others; this rank waits for that. If all
  /// ranks hang together, for example in a library's collective, the lowest one reports it first. Nodes whose ranks all hang
  /// cannot ask each other, so they report in turn, node by node: the first report ends the run, and is the only one.
  double longest_silence() const {
    bool others_live = static_cast<int>(peers.visible().size()) + 1 < peers.size(), lowest = true;
    const bool sees_all = !others_live;
    for (const int r : peers.visible()) {
      const bool hangs = peers.silence_s(r).value_or(0) > timeout / 2;
      others_live = others_live || !hangs;
      lowest = lowest && !(hangs && r < rank);
    }
    const int turn = sees_all ? 0 : std::min(node, most_nodes_in_turn);
    const double after_first = (lowest ? 0 : launcher_ends_s) + turn * launcher_ends_nodes_s;
    return timeout + (others_live ? inquiry.longest_s() : 0) + after_first;
  }

  /// A launcher that was killed cannot end its ranks any more. Those of other nodes are ended by their own launchers.
  void check_launcher() {
    if (!started_by || is_running(*started_by)) return;
    const std::string line = text("shoal: ", name(rank), ": the launcher's process ", started_by->number,
                                  " has ended without ending its ranks; ");
    const double now = seconds_of(CLOCK_MONOTONIC);
    const bool together = static_cast<int>(peers.visible().size()) + 1 == peers.size();
    if (!hung_up_at && together && hang_up && hang_up()) {
      hung_up_at = now;
      output::complain(line + "the run ends as if it was stopped\n");
    }
    if (!hung_up_at || now - *hung_up_at > timeout) end(line + "this rank ends too\n");
  }

  /// While the main thread is absent from MPI, in a kernel or a long loop, using processor time is a sign of life. At other
  /// times it is not: a library that waits for a message spins.
  void check_processor_time() {
    const double wall = seconds_of(CLOCK_MONOTONIC), used = processor_seconds();
    const bool computes = main_thread_is_mpi_free() && used - processor_used > least_share * (wall - checked_at);
    checked_at = wall;
    processor_used = used;
    if (computes) heartbeat::beat();
  }

  /// Answers ranks that wait for this one and ask whether it is alive. If the main thread is not absent from MPI, it is
  /// asked to answer itself.
  void answer_questions() {
    if (!stand_in([this] { inquiry.at_work(); })) call_listener();
  }

  template <typename Duration>
  bool stopped_within(Duration time) {
    std::unique_lock lock(mutex);
    return wake.wait_for(lock, time, [this] { return stop; });
  }

  /// If a peer has died, the lowest living rank reports it. The others end silently after it, or report if it does not.
  void check_peers() {
    std::vector<int> dead;
    int lowest = rank;
    for (const int r : peers.visible()) {
      if (!is_running(peers.process(r))) {
        dead.push_back(r);
      } else {
        lowest = std::min(lowest, r);
      }
    }
    if (dead.empty()) return;
    if (lowest != rank) {
      if (stopped_within(wait_for_lower_rank)) return;
      if (!is_running(peers.process(lowest))) end("");
    }
    std::vector<int> aborted, others;
    std::partition_copy(dead.begin(), dead.end(), std::back_inserter(aborted), std::back_inserter(others),
                        [this](int r) { return has_aborted(r); });
    std::string line = text("shoal: rank ", rank, ": ");
    if (aborted.empty()) {
      line += names(dead) + " died without an error message: killed, or crashed; this run ends";
    } else {
      line += names(aborted) + " aborted this run, but the launcher has not ended all ranks yet; this run ends";
      // They may be why the run was aborted, or have ended because of it: nothing more is known of them.
      if (!others.empty()) line += "; also gone: " + names(others);
    }
    end_all(line + "\n");
  }

  bool has_aborted(int r) const {
    const std::optional<activity::Picture> last = peers.picture(r);
    return last && last->aborts != 0;
  }

  int rank;
  double timeout, interval;
  int node;
  std::vector<std::string> hosts;
  RankProcesses peers;
  Inquiry inquiry;
  std::optional<ProcessId> started_by = launcher();
  std::function<bool()> hang_up;
  std::optional<double> hung_up_at;           // seconds
  double checked_at = 0, processor_used = 0;  // by check_processor_time(), seconds
  std::mutex mutex;
  std::condition_variable wake;
  bool stop = false;
  std::thread thread;
};

Watchdog::Watchdog(World& world, double timeout_s, std::function<bool()> hang_up)
    : state_(std::make_unique<State>(world, timeout_s, std::move(hang_up))) {
  set_long_wait(state_->interval,
                [this](const Operation& operation, double seconds) { state_->inquiry.waiting(operation, seconds); });
  set_listener([this] { state_->inquiry.at_work(); });
  begin_mpi_free();
  struct sigaction action {};
  action.sa_handler = delay_abort;
  action.sa_flags = SA_ONSTACK;  // [Note: borrowed stack pointers]
  sigaction(SIGABRT, &action, nullptr);
  state_->thread = std::thread([this] { state_->watch(); });
}

Watchdog::~Watchdog() {
  end_mpi_free();
  set_listener(nullptr);
  set_long_wait(0, nullptr);
  std::signal(SIGABRT, SIG_DFL);
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->wake.notify_all();
  state_->thread.join();
}

}  // namespace shoal::comm
