// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/alternate_stack.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>

#include "shoal/base/error.hpp"

namespace shoal {

namespace {

/// The frame of a signal has all registers: 11 KiB on a processor with AMX. Handlers of libraries print the calling
/// functions, which takes far more. Pages that nothing has written take no memory.
constexpr std::size_t stack_bytes = std::size_t{256} << 10U;
/// Below the stack, without access: a handler that needs more ends the process instead of writing elsewhere.
constexpr std::size_t guard_bytes = std::size_t{64} << 10U;

class AlternateStack {
 public:
  AlternateStack() {
    stack_t used{};
    require(sigaltstack(nullptr, &used) == 0, "sigaltstack: ", std::strerror(errno));
    if ((used.ss_flags & SS_DISABLE) == 0) return;  // a profiler's or a sanitizer's
    mapped_ = mmap(nullptr, guard_bytes + stack_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(mapped_ != MAP_FAILED, "no memory for a stack of signal handlers: ", std::strerror(errno));
    stack_t own{};
    own.ss_sp = static_cast<std::byte*>(mapped_) + guard_bytes;
    own.ss_size = stack_bytes;
    require(mprotect(own.ss_sp, stack_bytes, PROT_READ | PROT_WRITE) == 0 && sigaltstack(&own, nullptr) == 0,
            "no stack for signal handlers: ", std::strerror(errno));
  }

  ~AlternateStack() {
    if (mapped_ == nullptr) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    if (sigaltstack(&none, nullptr) == 0) munmap(mapped_, guard_bytes + stack_bytes);
  }

  AlternateStack(const AlternateStack&) = delete;
  AlternateStack& operator=(const AlternateStack&) = delete;

 private:
  void* mapped_ = nullptr;
};

}  // namespace

void use_alternate_stack() { static const thread_local AlternateStack stack; }

void put_handlers_on_alternate_stacks() {
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    struct sigaction action {};
    if (sigaction(signal, nullptr, &action) != 0) continue;  // one of those that the C library keeps to itself
    if ((action.sa_flags & SA_ONSTACK) != 0) continue;
    if ((action.sa_flags & SA_SIGINFO) == 0 && (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN)) continue;
    action.sa_flags |= SA_ONSTACK;
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace shoal
