// SPDX-License-Identifier: Apache-2.0
// Errors. A message says what is wrong, with which values, where, and what is allowed. Those that end the program are
// printed in src/app/main.cpp; other catches add a name to the message, or try something else.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace shoal {

/// Exit codes of the program. All ranks end with the same one.
enum class Exit : int { done = 0, failed = 1, bad_input = 2, requeue = 75 };

/// everywhere: all ranks raise this error; rank 0 prints it once and all ranks exit with one code. here: only this rank
/// raises it; it prints the error with its rank number and aborts the job.
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

/// Concatenates the parts, as << prints them. All messages are built with it.
template <typename... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// Throws: the user's input is wrong, and every rank finds it (exit code 2).
template <typename... Parts>
[[noreturn]] void bad_input(const Parts&... parts) {
  throw Error(Exit::bad_input, Seen::everywhere, text(parts...));
}

/// Throws: something failed on this rank (exit code 1), such as a disk, a library or an invariant of the program.
template <typename... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw Error(Exit::failed, Seen::here, text(parts...));
}

/// Calls fail() unless ok. For conditions that must hold whatever the user's input is.
template <typename... Parts>
void require(bool ok, const Parts&... parts) {
  if (!ok) fail(parts...);
}

/// Calls bad_input() unless ok.
template <typename... Parts>
void require_input(bool ok, const Parts&... parts) {
  if (!ok) bad_input(parts...);
}

}  // namespace shoal
