// SPDX-License-Identifier: Apache-2.0
// Errors: what is wrong, with which numbers, where, and what would do. Exceptions travel to main(), the one catch.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace shoal {

/// Exit codes of the program; all ranks end with the same one.
enum class Exit : int { done = 0, failed = 1, bad_input = 2, requeue = 75 };

/// Who can see the error. What all ranks see is said once, by rank 0; what one rank sees is said by that rank, with its
/// number, and ends all.
enum class Seen { everywhere, here };

class Error : public std::runtime_error {
 public:
  Error(Exit code, Seen seen, const std::string& message) : std::runtime_error(message), code_(code), seen_(seen) {}
  Exit code() const { return code_; }
  Seen seen() const { return seen_; }

 private:
  Exit code_;
  Seen seen_;
};

/// The parts printed one after another: the one place where a message is put together.
template <typename... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// The user's input is at fault (exit code 2), and every rank can see it.
template <typename... Parts>
[[noreturn]] void bad_input(const Parts&... parts) {
  throw Error(Exit::bad_input, Seen::everywhere, text(parts...));
}

/// Something failed (exit code 1) on this rank: a disk, a library, a broken promise of the program.
template <typename... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw Error(Exit::failed, Seen::here, text(parts...));
}

/// fail() unless ok. For what must hold whatever the user asked for.
template <typename... Parts>
void require(bool ok, const Parts&... parts) {
  if (!ok) fail(parts...);
}

/// bad_input() unless ok.
template <typename... Parts>
void require_input(bool ok, const Parts&... parts) {
  if (!ok) bad_input(parts...);
}

}  // namespace shoal
