// SPDX-License-Identifier: Apache-2.0
#include "shoal/io/removal.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <system_error>

#include "shoal/base/error.hpp"

namespace shoal::io {

void Removal::remove(const std::filesystem::path& file) {
  wait();
  // The blocks of a file stay as long as a process has it open; closing it frees them. O_PATH needs no right to read it.
  const int held = ::open(file.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
  std::error_code error;
  std::filesystem::remove(file, error);
  if (held >= 0) thread_ = std::thread([held] { ::close(held); });
  require(!error, file.string(), ": cannot be removed: ", error.message());
}

void Removal::wait() {
  if (thread_.joinable()) thread_.join();
}

}  // namespace shoal::io
