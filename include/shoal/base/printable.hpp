// SPDX-License-Identifier: Apache-2.0
// Text that came from a file, for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace shoal {

/// Printed as it is but for what a terminal would obey or a reader be deceived by: control characters, marks that turn the
/// direction of writing, and bytes that are no UTF-8 become \xNN or \u{NNNN}, a newline \n. `kept`: control characters that
/// stay.
std::string printable(std::string_view text, std::string_view kept = "");

}  // namespace shoal
