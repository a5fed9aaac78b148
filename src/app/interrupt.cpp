// SPDX-License-Identifier: Apache-2.0
#include "interrupt.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <string_view>

#include "shoal/comm/departure.hpp"

namespace shoal::app {

namespace {

struct SignalName {
  int signal;
  const char* name;
};
constexpr std::array kinds = {SignalName{SIGINT, "SIGINT"}, SignalName{SIGTERM, "SIGTERM"}, SignalName{SIGUSR1, "SIGUSR1"},
                              SignalName{SIGUSR2, "SIGUSR2"}};

constexpr std::int64_t one_delivery_ns = 1'000'000'000;

std::atomic<int> first_signal = 0, forwarded = 0;
std::atomic<std::int64_t> first_ns = 0;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);

/// The signal handler. It interrupts any thread anywhere, so it must not call anything that takes a lock.
void keep(int signal, siginfo_t* info, void* /*context*/) {
  const int error = errno;
  if (comm::is_hydra(info->si_pid)) forwarded = 1;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t now_ns = now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
  std::int64_t none = 0;
  if (first_ns.compare_exchange_strong(none, now_ns)) {
    first_signal = signal;
  } else if (now_ns - first_ns > one_delivery_ns) {
    constexpr std::string_view line = "shoal: a second signal: this rank ends at once, without a checkpoint\n";
    static_cast<void>(!write(STDERR_FILENO, line.data(), line.size()));
    if (comm::is_hydra(info->si_pid)) comm::leave_helper();
    std::signal(signal, SIG_DFL);
    raise(signal);  // delivered when this function returns
  }
  errno = error;
}

void record(int signal) {
  struct sigaction action {};
  action.sa_sigaction = keep;
  action.sa_flags = SA_SIGINFO | SA_RESTART;  // so that no library's system call fails with EINTR
  sigaction(signal, &action, nullptr);
}

void block_usr1(int how) {
  sigset_t usr1;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  pthread_sigmask(how, &usr1, nullptr);
}

void restore_defaults() {
  for (const SignalName& kind : kinds) std::signal(kind.signal, SIG_DFL);
}

}  // namespace

Interrupts::Interrupts() {
  first_signal = forwarded = 0;
  first_ns = 0;
  block_usr1(SIG_BLOCK);
  for (const SignalName& kind : kinds) {
    if (kind.signal != SIGUSR1) record(kind.signal);
  }
}

Interrupts::~Interrupts() { restore_defaults(); }

void Interrupts::mpi_has_started() {
  record(SIGUSR1);
  block_usr1(SIG_UNBLOCK);
}

void Interrupts::stop_recording() {
  restore_defaults();
  if (first_signal != 0) raise(first_signal);
}

int Interrupts::first() { return first_signal; }

int Interrupts::first_of_all(comm::Communicator& ranks) {
  std::array<std::int64_t, 2> seen = {first_signal, forwarded};
  ranks.all_reduce(Span<std::int64_t>(seen), comm::Reduce::max).wait();
  if (seen[1] != 0) forwarded = 1;
  return static_cast<int>(seen[0]);
}

bool Interrupts::by_hydra() { return forwarded != 0; }

std::string signal_name(int signal) {
  for (const SignalName& kind : kinds) {
    if (kind.signal == signal) return kind.name;
  }
  return "signal " + std::to_string(signal);
}

}  // namespace shoal::app
