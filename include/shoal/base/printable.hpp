// SPDX-License-Identifier: Apache-2.0
// Makes text that came from a file safe to print on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace shoal {

/// Returns the text with escapes for everything that would control the terminal or deceive a reader: control characters,
/// marks that change the direction of writing, and bytes that are not UTF-8 become \xNN or \u{NNNN}, a newline becomes \n.
/// Control characters listed in `kept` are not escaped.
std::string printable(std::string_view text, std::string_view kept = "");

}  // namespace shoal
