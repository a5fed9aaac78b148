// SPDX-License-Identifier: Apache-2.0
// Processes of this machine, as /proc lists them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace shoal::comm {

/// Identifies a process. Its number alone is not enough: it is reused after the process has ended (with another start time),
/// and is valid only in one name space of process numbers (a container has its own) of one machine since its last boot.
struct ProcessId {
  std::int64_t number = 0;
  std::uint64_t started = 0;     ///< clock ticks since the machine's start
  std::uint64_t name_space = 0;  ///< inode of the name space of process numbers
  std::uint64_t machine = 0;     ///< hash of the kernel's boot id

  bool visible_from(const ProcessId& other) const {
    return started != 0 && name_space != 0 && name_space == other.name_space && machine == other.machine;
  }
};

ProcessId this_process();
/// Returns false if the process has ended, also if its parent has not read its exit status yet. It must be visible from this
/// process.
bool is_running(const ProcessId& process);
/// The letter of /proc/PID/stat: 'R' runs, 'S' sleeps, 'D' waits for a disk, 'T' is stopped; '?' if it cannot be read.
char process_state(const ProcessId& process);

/// The process of the launcher (for example mpiexec's proxy on this node) that started this one, directly or through shells:
/// the nearest ancestor without the launcher's variable (PMI_RANK, ...) in its own environment. Empty if no launcher started
/// this process, or if the launcher's process is not visible from here (a container may hide it).
std::optional<ProcessId> launcher();

/// The process that started this one, on this machine; empty if it has ended or cannot be seen.
std::optional<ProcessId> parent_of(const ProcessId& process);
/// The first 15 characters of the program's name; empty if the process has ended.
std::string process_name(const ProcessId& process);

}  // namespace shoal::comm
