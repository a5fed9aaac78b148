// SPDX-License-Identifier: Apache-2.0
// Processes of this machine, as /proc shows them.
#pragma once

#include <cstdint>
#include <optional>

namespace shoal::comm {

/// A process among all of a machine: its number is used again after its end, with another start time; and it means something
/// only in its name space (a container has its own) of its machine (since it was booted).
struct ProcessId {
  std::int64_t number = 0;
  std::uint64_t started = 0;     ///< clock ticks since the machine's start
  std::uint64_t name_space = 0;  ///< of process numbers
  std::uint64_t machine = 0;     ///< hash of the kernel's boot id

  bool visible_from(const ProcessId& other) const {
    return started != 0 && name_space != 0 && name_space == other.name_space && machine == other.machine;
  }
};

ProcessId this_process();
/// False when it has ended, also if nobody has asked for its exit status yet. It must be visible from this process.
bool is_running(const ProcessId& process);

/// The process of the launcher (mpiexec's proxy on this node, say) that started this one, directly or through shells: the
/// nearest ancestor that did not get the launcher's variable (PMI_RANK, ...) into its own environment. Empty where no
/// launcher started this process, or its process cannot be seen from here (a container may hide it).
std::optional<ProcessId> launcher();

}  // namespace shoal::comm
