// SPDX-License-Identifier: Apache-2.0
// How a rank waits for messages: it tests, and yields its core between tests. MPI libraries spin; if there are more ranks
// than cores, that costs a rank's whole time slice per message. On two cores, 4 ranks sum 64 KiB in 150 ms with
// MPI_Allreduce, and in 1.5 ms in this way.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "shoal/base/types.hpp"
#include "shoal/comm/options.hpp"

namespace shoal::comm {

class Operation;

/// The cores that a rank may run on, one bit per core.
using CoreMask = std::array<std::uint64_t, 128>;
CoreMask usable_cores();

/// Number of cores for rank `mine` of a node if each core is divided evenly among the ranks that may use it.
double core_share(Span<const CoreMask> ranks, std::size_t mine);

/// Returns yield or sleep for comm.wait = option. The environment variable SHOAL_COMM_WAIT takes precedence: virtual hosts
/// may use the same cores without knowing it. automatic: sleep if `share`, the cores that this rank has for itself
/// (core_share()), is less than one.
Wait choose_wait(Wait option, double share);
/// Sets how waiting goes on after 200 tests (Backoff): `yield` continues to yield, `sleep` sleeps for 20 us between tests.
/// If each rank has a core, sleeping costs time (64 KiB between two nodes: 2.2 ms instead of 0.14 ms). If several ranks use
/// a core, the scheduler soon returns to a rank that only yields.
void set_wait(Wait how);

/// The pause between two tests: none after the first 20 tests, then sched_yield(), and from the 200th test on a sleep if
/// set_wait(sleep) was called. Every pause but the first 20 is a heartbeat.
class Backoff {
 public:
  void pause();
  /// Returns true if the first, fast tests are over, so that the time for reading the clock does not matter.
  bool yields() const { return tests_ > 20; }

 private:
  int tests_ = 0;
};

/// Called by waits about every `interval` seconds, with the operation and the seconds that the wait has lasted.
using LongWait = std::function<void(const Operation& operation, double seconds)>;
void set_long_wait(double interval, LongWait function);

/// Installs a function for the main thread; nullptr: none. After call_listener(), which any thread may call, the main thread
/// calls it once: at its next pump(), or when it next begins to wait.
void set_listener(std::function<void()> function);
void call_listener();

}  // namespace shoal::comm
