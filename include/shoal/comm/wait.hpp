// SPDX-License-Identifier: Apache-2.0
// How a rank waits: it tests, and lets go of its core. MPI libraries spin, which with more ranks than cores costs a rank's
// whole time slice per message: on two cores 4 ranks sum 64 KiB in 150 ms by MPI_Allreduce and in 1.5 ms so.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "shoal/base/types.hpp"
#include "shoal/comm/options.hpp"

namespace shoal::comm {

class Operation;

/// The cores that a rank may run on, a bit each.
using CoreMask = std::array<std::uint64_t, 128>;
CoreMask usable_cores();

/// Cores of rank `mine` of a node if each core is divided evenly among the ranks that may use it.
double core_share(Span<const CoreMask> ranks, std::size_t mine);

/// yield or sleep, for comm.wait = option; the environment variable SHOAL_COMM_WAIT takes precedence (hosts may share cores
/// without knowing of each other). automatic: sleep if this rank has less than a core to itself.
Wait choose_wait(Wait option, double share);
/// After some tests at once and some with sched_yield(), a rank that waits only yields, or sleeps for 20 us at a time. If
/// each rank has a core, sleeps cost time (64 KiB between two nodes: 2.2 ms against 0.14 ms); if ranks share cores, the
/// scheduler soon returns to a rank that yields.
void set_wait(Wait how);

/// Between two tests: 20 times nothing, then yields, from the 200th on sleeps where chosen. Who waits is alive (heartbeat).
class Backoff {
 public:
  void pause();
  /// Whether the first, fast tests are over, so that reading the clock costs nothing.
  bool yields() const { return tests_ > 20; }

 private:
  int tests_ = 0;
};

/// Called about every `interval` seconds by waits that last that long, with what is waited for and since how many seconds.
using LongWait = std::function<void(const Operation& operation, double seconds)>;
void set_long_wait(double interval, LongWait function);

/// For ranks that compute: after call_listener(), which any thread may call, the main thread calls the function once, at its
/// next pump() or as it begins to wait. nullptr: none.
void set_listener(std::function<void()> function);
void call_listener();

}  // namespace shoal::comm
