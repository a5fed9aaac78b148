// SPDX-License-Identifier: Apache-2.0
#include "shoal/comm/mpiexec.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <string>

namespace shoal::comm {

std::optional<ProcessId> mpiexec_of(const ProcessId& proxy) {
  const std::optional<ProcessId> parent = parent_of(proxy);
  if (!parent) return std::nullopt;
  const std::string name = process_name(*parent);
  return name.starts_with("mpiexec") || name.starts_with("mpirun") ? parent : std::nullopt;
}

bool mpiexec_prints_to_terminal() {
  const std::optional<ProcessId> proxy = launcher();
  const std::optional<ProcessId> mpiexec = proxy ? mpiexec_of(*proxy) : std::nullopt;
  if (!mpiexec) return false;
  const std::string output = "/proc/" + std::to_string(mpiexec->number) + "/fd/1";
  const int descriptor = open(output.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool terminal = isatty(descriptor) == 1;
  close(descriptor);
  return terminal;
}

}  // namespace shoal::comm
