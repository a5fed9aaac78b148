// SPDX-License-Identifier: Apache-2.0
// Finds the files that an option names, and reads their text.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::data {

/// The files of a path, a list of paths (comma) or a pattern (* ? [...]), in the order of the list; those of a pattern are
/// sorted by name. Fails (bad_input) if a file is missing, unreadable or empty; the message begins with the name of the
/// option.
std::vector<std::filesystem::path> find_files(const std::string& option, const std::string& source);

/// Returns true for tokens files (HDF5), false for text files. Fails (bad_input) for a mixture.
bool are_token_files(const std::string& option, const std::vector<std::filesystem::path>& files);

/// Calls `handle` with the text of a file in blocks of some MiB, which end between UTF-8 characters, and the position of
/// each block.
void for_each_block(const std::filesystem::path& file,
                    const std::function<void(std::string_view block, std::size_t offset)>& handle);

/// "a.txt", or "3 files".
std::string name_of(const std::vector<std::filesystem::path>& files);
std::size_t bytes_of(const std::vector<std::filesystem::path>& files);

}  // namespace shoal::data
