// SPDX-License-Identifier: Apache-2.0
#include "app/support/shell_words.hpp"

#include <cstdint>
#include <string_view>
#include <system_error>

#include "app/support/text_table.hpp"
#include "shoal/base/printable.hpp"

namespace shoal::app {

namespace fs = std::filesystem;

namespace {

/// $'...', all in ASCII.
std::string with_escapes(const std::string& text) {
  std::string result = "$'";
  for (const char c : text) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (byte < 0x20 || byte >= 0x7F) {
      result += print_to_string("\\%03o", static_cast<unsigned>(byte));
    } else {
      result += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    }
  }
  return result + "'";
}

/// The path from the current directory, if it lies below.
fs::path from_here(const fs::path& path) {
  std::error_code error;
  const fs::path here = fs::current_path(error);
  const fs::path below = error ? fs::path() : path.lexically_relative(here);
  return below.empty() || *below.begin() == ".." ? path : below;
}

}  // namespace

std::string shell_word(const std::string& text) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  if (printable(text) != text) return with_escapes(text);
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

std::string path_word(const fs::path& path) {
  const std::string& name = path.native();
  const bool misread = name.starts_with('-') || name.substr(0, name.find('/')).find('=') != std::string::npos;
  return shell_word(misread ? "./" + name : name);
}

std::optional<fs::path> analysis_script(const std::string& name) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return std::nullopt;
  const fs::path above = program.parent_path().parent_path();
  for (const fs::path& folder : {above / "analysis", above / "share/shoal/analysis"}) {
    if (fs::is_regular_file(folder / name, error)) return from_here(folder / name);
  }
  return std::nullopt;
}

}  // namespace shoal::app
