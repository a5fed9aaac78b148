// SPDX-License-Identifier: Apache-2.0
// Errors found in a file from anywhere.
#pragma once

#include <filesystem>

#include "io/files/files.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/printable.hpp"

namespace shoal::io {

/// Returns what read() returns. Its errors become bad_input() of one line that begins with the file's path. They may quote
/// the file, so control characters are escaped. If a call of the system failed, the file may be whole: that error remains.
template <typename Read>
decltype(auto) with_file_name(const std::filesystem::path& file, Read&& read) {
  try {
    return read();
  } catch (const SystemError&) {
    throw;
  } catch (const Error& error) {
    bad_input(file.string(), ": ", printable(error.what()));
  }
}

}  // namespace shoal::io
