// SPDX-License-Identifier: Apache-2.0
#include "comm/world/shared_memory.hpp"

#include <sys/stat.h>

#include <functional>

#include "shoal/comm/process.hpp"

namespace shoal::comm {

SharedMemory shared_memory(std::string_view host) {
  SharedMemory memory{this_process().machine, 0, std::hash<std::string_view>()(host)};
  struct stat directory {};
  if (stat("/dev/shm", &directory) == 0) memory.file_system = directory.st_dev;
  return memory;
}

}  // namespace shoal::comm
