// SPDX-License-Identifier: Apache-2.0
#include "app/support/interrupt.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <initializer_list>
#include <string_view>

namespace shoal::app {

namespace {

struct SignalName {
  int signal;
  const char* name;
};
constexpr std::array kinds = {SignalName{SIGINT, "SIGINT"},   SignalName{SIGTERM, "SIGTERM"}, SignalName{SIGUSR1, "SIGUSR1"},
                              SignalName{SIGUSR2, "SIGUSR2"}, SignalName{SIGPIPE, "SIGPIPE"}, SignalName{SIGHUP, "SIGHUP"}};

constexpr std::int64_t one_delivery_ns = 1'000'000'000;

std::atomic<int> first_signal = 0;
std::atomic<std::int64_t> first_ns = 0;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);

enum Phase { mpi_starts, mpi_runs, over };
std::atomic<int> phase = mpi_starts;
std::atomic<bool> records = false;

/// Records the signal. Returns true if it is a second one.
bool is_second(int signal) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t now_ns = now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
  std::int64_t none = 0;
  if (first_ns.compare_exchange_strong(none, now_ns)) {
    first_signal = signal;
    return false;
  }
  return signal != SIGPIPE && now_ns - first_ns > one_delivery_ns;
}

/// The signal handler. It interrupts its thread anywhere, so it must not call anything that takes a lock.
void keep(int signal) {
  const int error = errno;
  if (is_second(signal)) {
    constexpr std::string_view line = "shoal: a second signal: this rank ends at once, without a checkpoint\n";
    static_cast<void>(!write(STDERR_FILENO, line.data(), line.size()));
    std::signal(signal, SIG_DFL);
    raise(signal);  // delivered when this function returns
  }
  errno = error;
}

void record(int signal) {
  struct sigaction action {};
  action.sa_handler = keep;
  action.sa_flags = SA_RESTART | SA_ONSTACK;  // so that no library's system call fails with EINTR
  sigaction(signal, &action, nullptr);
}

sigset_t set_of(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

sigset_t set_of_all() {
  sigset_t set = set_of({});
  for (const SignalName& kind : kinds) sigaddset(&set, kind.signal);
  return set;
}

/// The thread that runs the handlers.
void listen() {
  sigset_t blocked = set_of({SIGUSR1});
  pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
  phase.wait(mpi_starts);
  blocked = set_of({});
  pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
  phase.wait(mpi_runs);
}

void enter(Phase next) {
  phase = next;
  phase.notify_all();
}

/// A write to a pipe that nobody reads sends SIGPIPE to the thread that wrote, on which it is blocked and stays pending.
void take_pending_sigpipe() {
  const sigset_t pipe = set_of({SIGPIPE});
  const timespec at_once{};
  if (sigtimedwait(&pipe, nullptr, &at_once) == SIGPIPE) is_second(SIGPIPE);
}

bool hang_ups_were_ignored = false;

/// Runs before the constructors of libraries, since that of UCX has a handler for SIGHUP, whoever ignored it. It asks the
/// kernel itself: a sanitizer's sigaction() may not work yet.
void look_at_hang_ups(int, char**, char**) {
  struct {
    decltype(SIG_IGN) handler = SIG_DFL;
    std::array<unsigned long, 20> rest{};  // flags and the like, of no more than this length
  } action;
  constexpr std::size_t bytes_of_mask = 8;
  hang_ups_were_ignored =
      syscall(SYS_rt_sigaction, SIGHUP, nullptr, &action, bytes_of_mask) == 0 && action.handler == SIG_IGN;
}
[[gnu::used, gnu::section(".preinit_array")]] void (*const first_of_all)(int, char**, char**) = look_at_hang_ups;

/// Returns true if the signal stays ignored.
bool is_ignored(int signal) {
  struct sigaction action {};
  return signal == SIGHUP &&
         (hang_ups_were_ignored || (sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN));
}

void restore_defaults() {
  records = false;
  for (const SignalName& kind : kinds) {
    if (!is_ignored(kind.signal)) std::signal(kind.signal, SIG_DFL);
  }
}

}  // namespace

Interrupts::Interrupts() {
  first_signal = 0;
  first_ns = 0;
  phase = mpi_starts;
  const sigset_t all = set_of_all();
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  for (const SignalName& kind : kinds) {
    if (is_ignored(kind.signal)) {
      std::signal(kind.signal, SIG_IGN);  // again: a library's handler may be there
    } else if (kind.signal != SIGUSR1) {
      record(kind.signal);
    }
  }
  records = true;
  listener_ = std::thread(listen);
}

Interrupts::~Interrupts() {
  restore_defaults();
  enter(over);
  listener_.join();
}

void Interrupts::mpi_has_started() {
  record(SIGUSR1);
  enter(mpi_runs);
}

void Interrupts::stop_recording() {
  restore_defaults();
  if (first_signal != 0) kill(getpid(), first_signal);  // not raise(): this thread blocks it
}

bool Interrupts::hang_up() {
  if (!records) return false;
  if (first_signal == 0) is_second(SIGHUP);
  return true;
}

int Interrupts::first() {
  take_pending_sigpipe();
  return first_signal;
}

int Interrupts::first_of_all(comm::Communicator& ranks) {
  std::int64_t seen = first();
  ranks.all_reduce(Span<std::int64_t>(&seen, 1), comm::Reduce::max).wait();
  return static_cast<int>(seen);
}

std::string signal_name(int signal) {
  for (const SignalName& kind : kinds) {
    if (kind.signal == signal) return kind.name;
  }
  return "signal " + std::to_string(signal);
}

}  // namespace shoal::app
