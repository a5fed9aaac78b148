// SPDX-License-Identifier: Apache-2.0
#include "shoal/io/removal.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <system_error>

#include "shoal/base/error.hpp"

namespace shoal::io {

void Removal::remove(const std::filesystem::path& file) {
  wait();
  // As long as anybody holds the file, its blocks stay. A path alone needs no permission to read.
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
