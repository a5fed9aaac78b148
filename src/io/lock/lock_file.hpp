// SPDX-License-Identifier: Apache-2.0
// The content of a lock file: text lines, each with a key and its value.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "shoal/comm/process.hpp"

namespace shoal::io {

/// The holder of a lock.
struct LockHolder {
  std::string token;  ///< random; no other lock has it
  std::string host, since;
  comm::ProcessId process;
  double timeout = 0;  ///< seconds without a touch after which the holder counts as dead
  double touch_s = 0;  ///< seconds between touches
};

/// This process as a holder that starts now.
LockHolder holder_of_this_process(double timeout_s);

std::string lock_text(const LockHolder& holder);

/// A lock file that was found.
struct FoundLock {
  bool readable = false;  ///< false if its content is not complete; then only the token is set
  LockHolder holder;
  std::int64_t touched_ns = 0;  ///< by the clock of the file system
};

/// Nothing if there is no lock file. bad_input() if the file is not a lock file of this program.
std::optional<FoundLock> find_lock(const std::filesystem::path& file);

/// "host H, process P, since T".
std::string name_of(const FoundLock& lock);

}  // namespace shoal::io
