// SPDX-License-Identifier: Apache-2.0
// Tells text from binary files, whose bytes would train with a fine loss and mean nothing.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace shoal::data {

/// Fails (bad_input) if a block at byte `offset` of a file is no text: it has a byte that is zero, or begins the file with
/// the mark of a binary format; or in its first 64 KiB more than one byte in 1000 is no UTF-8, or more than one in 20 is a
/// control character that texts do not use. A few bad bytes, as crawled texts have them, pass. The message says where the
/// first bad byte is, what the file looks like and what to do.
void require_text(std::string_view block, const std::filesystem::path& file, std::size_t offset);

}  // namespace shoal::data
