// SPDX-License-Identifier: Apache-2.0
#include "shoal/comm/departure.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "shoal/comm/process.hpp"

namespace shoal::comm {

namespace {

constexpr timespec time_to_end{0, 200'000'000};

/// Hydra's proxy, and this rank's connection to it; 0 and -1 if another launcher started this process, or none.
struct Proxy {
  Proxy() {
    const char* const number = std::getenv("PMI_FD");
    if (std::getenv("HYDI_CONTROL_FD") == nullptr || number == nullptr) return;
    connection = std::atoi(number);
    if (const auto found = launcher()) process = found->number;
  }
  std::int64_t process = 0;
  int connection = -1;
};
const Proxy proxy;

/// The helper process uses the rank's memory, copies of its descriptors, and a stack of its own. It makes system calls only,
/// since the C library's state belongs to the rank. It must close the connection before the rank's standard output closes.
alignas(16) char stack[16384];
__attribute__((no_sanitize("address", "thread"))) int wait_and_end(void* /*unused*/) {
  syscall(SYS_nanosleep, &time_to_end, nullptr);
  syscall(SYS_close, proxy.connection);
  syscall(SYS_nanosleep, &time_to_end, nullptr);
  syscall(SYS_exit_group, 0);
  return 0;
}

}  // namespace

bool is_hydra(int process) noexcept { return process != 0 && process == proxy.process; }

void leave_helper() noexcept { clone(wait_and_end, stack + sizeof stack, CLONE_VM | SIGCHLD, nullptr); }

void depart(int exit_code) {
  std::fflush(nullptr);
  leave_helper();
  _exit(exit_code);
}

}  // namespace shoal::comm
