// SPDX-License-Identifier: Apache-2.0
// Words of commands that the program prints to be pasted into a shell, or writes into scripts.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace shoal::app {

/// The text as one word of a shell: as it is, in single quotes, or, with characters that must not reach a terminal
/// (base/printable.hpp), as bash writes them: $'\033[31m'.
std::string shell_word(const std::string& text);

/// The same for a path that is an argument or a command: "-x" is no option then, and "a=b/c" no assignment.
std::string path_word(const std::filesystem::path& path);

/// A script of analysis/ that belongs to this program, whether it was built in the source tree or installed; a path from
/// where the user stands if it lies below. Nothing if it is not there.
std::optional<std::filesystem::path> analysis_script(const std::string& name);

}  // namespace shoal::app
