// SPDX-License-Identifier: Apache-2.0
#include "shoal/comm/process.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <string>

namespace shoal::comm {

namespace {

struct Status {
  char state = 'X';
  std::int64_t parent = 0;
  std::uint64_t started = 0;
};

/// Reads /proc/PID/stat: "PID (name) state ...". The name may contain any characters; the parent is field 4, the start time
/// field 22.
std::optional<Status> status_of(std::int64_t number) {
  std::ifstream file("/proc/" + std::to_string(number) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  Status status;
  fields >> status.state >> status.parent;
  std::string skipped;
  for (int field = 5; field < 22; ++field) fields >> skipped;
  fields >> status.started;
  return fields ? std::optional(status) : std::nullopt;
}

/// Launchers set one of these in the environment of the processes that they start: MPICH's and Intel's hydra and Slurm's
/// pmi2, PMIx, Open MPI, HPE's PALS, Flux, Slurm.
constexpr std::array launcher_variables = {"PMI_RANK",    "PMIX_RANK",      "OMPI_COMM_WORLD_RANK",
                                           "PALS_RANKID", "FLUX_TASK_RANK", "SLURM_PROCID"};

/// Returns true if the process was started with the variable in its environment. False if its environment may not be read:
/// then it belongs to another user, so it is not a shell between the launcher and this process.
bool started_with(std::int64_t number, const std::string& variable) {
  std::ifstream file("/proc/" + std::to_string(number) + "/environ");
  for (std::string entry; std::getline(file, entry, '\0');) {
    if (entry.starts_with(variable + "=")) return true;
  }
  return false;
}

}  // namespace

std::optional<ProcessId> launcher() {
  const auto* const variable = std::find_if(launcher_variables.begin(), launcher_variables.end(),
                                            [](const char* name) { return std::getenv(name) != nullptr; });
  if (variable == launcher_variables.end()) return std::nullopt;
  ProcessId process = this_process();
  do {
    const auto status = status_of(process.number);
    if (!status) return std::nullopt;
    process.number = status->parent;
  } while (started_with(process.number, *variable));
  const auto status = status_of(process.number);
  if (process.number <= 1 || !status) return std::nullopt;
  process.started = status->started;
  return process;
}

std::optional<ProcessId> parent_of(const ProcessId& process) {
  const auto status = status_of(process.number);
  if (!status || status->started != process.started || status->parent <= 0) return std::nullopt;
  const auto parent = status_of(status->parent);
  if (!parent) return std::nullopt;
  return ProcessId{status->parent, parent->started, process.name_space, process.machine};
}

std::string process_name(const ProcessId& process) {
  std::ifstream file("/proc/" + std::to_string(process.number) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

ProcessId this_process() {
  ProcessId process;
  process.number = getpid();
  if (const auto status = status_of(process.number)) process.started = status->started;
  struct stat name_space {};
  if (stat("/proc/self/ns/pid", &name_space) == 0) process.name_space = name_space.st_ino;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot_id;
  std::getline(file, boot_id);
  process.machine = std::hash<std::string>()(boot_id);
  return process;
}

char process_state(const ProcessId& process) {
  const auto status = status_of(process.number);
  return status && status->started == process.started ? status->state : '?';
}

bool is_running(const ProcessId& process) {
  const auto status = status_of(process.number);
  return status && status->started == process.started && status->state != 'Z' && status->state != 'X';
}

}  // namespace shoal::comm
