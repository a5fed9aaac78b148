// SPDX-License-Identifier: Apache-2.0
// What stands in a lock file: text, a word and its value a line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "shoal/comm/process.hpp"

namespace shoal::io {

/// Who holds a lock.
struct LockHolder {
  std::string token;  ///< of this lock alone
  std::string host, since;
  comm::ProcessId process;
  double timeout = 0;  ///< seconds without a touch after which it counts as dead
  double touch_s = 0;  ///< seconds between touches
};

/// This process, from now on.
LockHolder holder_of_this_process(double timeout_s);

std::string lock_text(const LockHolder& holder);

/// A lock file as it is found.
struct FoundLock {
  bool readable = false;  ///< false: its writer has not written all yet, or could not; only the token is set then
  LockHolder holder;
  std::int64_t touched_ns = 0;  ///< by the clock of the file system
};

/// Nothing where there is none. bad_input() for what is no lock file of this program.
std::optional<FoundLock> find_lock(const std::filesystem::path& file);

/// "host H, process P, since T".
std::string name_of(const FoundLock& lock);

}  // namespace shoal::io
