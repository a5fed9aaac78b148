// SPDX-License-Identifier: Apache-2.0
#include "shoal/comm/watchdog.hpp"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "inquiry.hpp"
#include "shoal/base/absence.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/comm/process.hpp"
#include "shoal/comm/wait.hpp"
#include "shoal/comm/world.hpp"

namespace shoal::comm {

namespace {

/// How long a rank leaves it to a lower one to say that a third has died.
constexpr std::chrono::seconds wait_for_lower_rank(3);

/// A launcher that sees a rank fail may end without passing on what it has not read yet.
constexpr useconds_t launcher_reads_us = 200'000;

/// The share of a processor's time that a rank which computes gets at the least, however many share the processor.
constexpr double least_share = 0.01;

/// Standard error may be a pipe to a launcher that has died.
[[noreturn]] void end(const std::string& line) {
  std::signal(SIGPIPE, SIG_IGN);
  dprintf(STDERR_FILENO, "%s", line.c_str());  // not through stdio: the main thread may hold its lock
  usleep(launcher_reads_us);
  _exit(static_cast<int>(Exit::failed));
}

/// A transport that finds its peer gone aborts the process (UCX does) before the watchdog has looked. The abort is held up
/// until it has, so that the message names the rank that died and not a library's frame.
void delay_abort(int) {
  usleep(3'000'000);
  std::signal(SIGABRT, SIG_DFL);  // nobody died: abort() goes on when this returns
}

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Processor time of this process without the calling thread's.
double processor_seconds() { return seconds_of(CLOCK_PROCESS_CPUTIME_ID) - seconds_of(CLOCK_THREAD_CPUTIME_ID); }

}  // namespace

struct Watchdog::State {
  State(World& world, double timeout_s)
      : rank(world.all().rank()),
        timeout(timeout_s),
        interval(std::min(1.0, timeout_s / 4)),
        hosts(world.topology().hosts),
        inquiry(*static_cast<const MPI_Comm*>(world.inquiry_communicator()), hosts, timeout, interval),
        processes(static_cast<std::size_t>(world.size())) {
    const ProcessId mine = this_process();
    world.all().all_gather(const_bytes_of(Span<const ProcessId>(&mine, 1)), bytes_of(Span<ProcessId>(processes))).wait();
    for (int r = 0; r < world.size(); ++r) {
      if (r != rank && process(r).visible_from(mine)) visible_peers.push_back(r);
    }
  }

  const ProcessId& process(int r) const { return processes[static_cast<std::size_t>(r)]; }
  std::string name(int r) const {
    return text("rank ", r, " (", hosts[static_cast<std::size_t>(r)], ", process ", process(r).number, ")");
  }

  /// The thread: looks until it is told to stop.
  void watch() {
    heartbeat::beat();  // what was before is not watched
    while (!stopped_within(std::chrono::duration<double>(interval))) {
      check_launcher();
      check_peers();
      check_processor_time();
      answer_questions();
      const double silence = static_cast<double>(heartbeat::silence_ns()) * 1e-9;
      // Ranks that are stuck together, in a library's collective say, leave it to rank 0 to say so.
      if (silence > timeout + (rank == 0 ? 0 : 2 * interval)) {
        end(text("shoal: ", name(rank), " has shown no sign of life for ", static_cast<std::int64_t>(silence),
                 " s, in phase ", heartbeat::current_phase(), " (comm.timeout = ", timeout, ")\n"));
      }
    }
  }

  /// A launcher that was killed can end nobody any more.
  void check_launcher() const {
    if (!started_by || is_running(*started_by)) return;
    end(text("shoal: ", name(rank), ": the launcher's process ", started_by->number,
             " has ended without ending its ranks; this rank ends too\n"));
  }

  /// A kernel, or a loop that declared itself absent, is alive as long as it takes processor time. Elsewhere processor time
  /// says nothing: a library that waits for a message spins.
  void check_processor_time() {
    const double wall = seconds_of(CLOCK_MONOTONIC), used = processor_seconds();
    const bool computes = main_thread_absent() && used - processor_used > least_share * (wall - checked_at);
    checked_at = wall;
    processor_used = used;
    if (computes) heartbeat::beat();
  }

  /// Ranks that wait for this one ask whether it lives. Where the main thread may be in MPI, it answers itself.
  void answer_questions() {
    if (!stand_in([this] { inquiry.at_work(heartbeat::current_phase()); })) call_listener();
  }

  template <typename Duration>
  bool stopped_within(Duration time) {
    std::unique_lock lock(mutex);
    return wake.wait_for(lock, time, [this] { return stop; });
  }

  /// The lowest rank that lives speaks; the others end silently once it has, and speak if it does not.
  void check_peers() {
    std::vector<int> dead;
    int lowest = rank;
    for (const int r : visible_peers) {
      if (!is_running(process(r))) {
        dead.push_back(r);
      } else {
        lowest = std::min(lowest, r);
      }
    }
    if (dead.empty()) return;
    if (lowest != rank) {
      if (stopped_within(wait_for_lower_rank)) return;
      if (!is_running(process(lowest))) end("");
    }
    std::string line = text("shoal: rank ", rank, ": ");
    for (const int r : dead) line += text(r != dead.front() ? ", " : "", name(r));
    end(line + " died without a word: killed, or crashed; this run ends\n");
  }

  int rank;
  double timeout, interval;
  std::vector<std::string> hosts;
  Inquiry inquiry;
  std::vector<ProcessId> processes;  // by rank
  std::vector<int> visible_peers;    // whose processes can be seen from here
  std::optional<ProcessId> started_by = launcher();
  double checked_at = 0, processor_used = 0;  // by check_processor_time(), seconds
  std::mutex mutex;
  std::condition_variable wake;
  bool stop = false;
  std::thread thread;
};

Watchdog::Watchdog(World& world, double timeout_s) : state_(std::make_unique<State>(world, timeout_s)) {
  set_long_wait(state_->interval,
                [this](const Operation& operation, double seconds) { state_->inquiry.waiting(operation, seconds); });
  set_listener([this] { state_->inquiry.at_work(heartbeat::current_phase()); });
  begin_absences();
  std::signal(SIGABRT, delay_abort);
  state_->thread = std::thread([this] { state_->watch(); });
}

Watchdog::~Watchdog() {
  end_absences();
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
