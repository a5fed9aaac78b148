// SPDX-License-Identifier: Apache-2.0
// How errors that end a run are printed.
#pragma once

#include <string>
#include <string_view>

namespace shoal::comm {

/// Prints a message with `head` before each line, in one write, so that the ranks' lines do not mix. The message may quote a
/// file, so it is made printable. What was printed last is not printed again: whoever may hang while it cleans up prints its
/// message before, and the end of the run would repeat it.
void print_error(const std::string& head, std::string_view message);

}  // namespace shoal::comm
