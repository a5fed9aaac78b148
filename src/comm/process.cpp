// SPDX-License-Identifier: Apache-2.0
#include "shoal/comm/process.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <string>

namespace shoal::comm {

namespace {

struct Status {
  char state = 'X';
  std::uint64_t started = 0;
};

/// From /proc/PID/stat: "PID (name) state ...", where the name may hold anything and the start time is field 22.
std::optional<Status> status_of(std::int64_t number) {
  std::ifstream file("/proc/" + std::to_string(number) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  Status status;
  fields >> status.state;
  std::string skipped;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  fields >> status.started;
  return fields ? std::optional(status) : std::nullopt;
}

}  // namespace

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

bool is_running(const ProcessId& process) {
  const auto status = status_of(process.number);
  return status && status->started == process.started && status->state != 'Z' && status->state != 'X';
}

}  // namespace shoal::comm
