// SPDX-License-Identifier: Apache-2.0
// Names the rank that stalls or died, and ends the run instead of leaving the others waiting.
#pragma once

#include <memory>

namespace shoal::comm {

class World;

/// A thread per rank, alive as long as the object. Every second it looks whether the ranks of its node are still running
/// (by process number, where they share a name space of processes) and whether its own rank has beaten
/// (base/heartbeat.hpp) within `timeout` seconds. If not, it says which rank, where, in which phase, and ends the process
/// with exit code 1 (the launcher ends the rest). Ranks of other nodes are noticed by waits that last longer than the
/// timeout: the waiting ranks tell each other, and the lowest of them names those that said nothing.
class Watchdog {
 public:
  Watchdog(World& world, double timeout_s);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shoal::comm
