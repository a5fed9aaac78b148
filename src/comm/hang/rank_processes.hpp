// SPDX-License-Identifier: Apache-2.0
// The processes of all ranks, and what those on this machine are doing: their pages are read (base/activity.hpp) without
// their help, so also if they hang or were stopped.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "shoal/base/activity.hpp"
#include "shoal/comm/process.hpp"

namespace shoal::comm {

class World;

class RankProcesses {
 public:
  /// Collective. Pages are read of processes in the same name space of process numbers.
  explicit RankProcesses(World& world);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(processes_.size()); }
  const ProcessId& process(int rank) const { return processes_[static_cast<std::size_t>(rank)]; }
  /// Other ranks whose processes can be looked up here.
  const std::vector<int>& visible() const { return visible_; }
  /// The rank's state, if its page or this process is the rank's. May be called from any thread.
  std::optional<activity::Picture> picture(int rank) const;
  /// Seconds since its last heartbeat, if that can be read.
  std::optional<double> silence_s(int rank) const;

 private:
  int rank_;
  std::vector<ProcessId> processes_;
  std::vector<activity::OtherPage> pages_;  // by rank; not readable: this rank's, and those of other machines
  std::vector<int> visible_;
};

}  // namespace shoal::comm
