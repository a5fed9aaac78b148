// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/mpi_free.hpp"

#include <sched.h>

#include <atomic>

namespace shoal {

namespace {

/// Who may call MPI now. The constructor of MpiFree releases the main thread's right at once. The destructor takes it back,
/// after waiting for a thread that acts in its place (stand_in()).
enum class Right { main_thread, nobody, stand_in };
std::atomic<Right> right{Right::main_thread};

constinit thread_local bool is_main = false;
constinit thread_local int depth = 0;

}  // namespace

MpiFree::MpiFree() noexcept {
  if (depth++ == 0 && is_main) right.store(Right::nobody, std::memory_order_release);
}

MpiFree::~MpiFree() {
  if (--depth != 0 || !is_main) return;
  Right expected = Right::nobody;
  while (!right.compare_exchange_weak(expected, Right::main_thread, std::memory_order_acquire)) {
    expected = Right::nobody;
    sched_yield();
  }
}

bool MpiFree::here() { return depth > 0; }

void begin_mpi_free() { is_main = true; }
void end_mpi_free() { is_main = false; }

bool stand_in(const std::function<void()>& act) {
  Right expected = Right::nobody;
  if (!right.compare_exchange_strong(expected, Right::stand_in, std::memory_order_acquire)) return false;
  act();
  right.store(Right::nobody, std::memory_order_release);
  return true;
}

bool main_thread_is_mpi_free() { return right.load(std::memory_order_relaxed) != Right::main_thread; }

}  // namespace shoal
