// SPDX-License-Identifier: Apache-2.0
// The files that an option names, and the text in them.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::data {

/// The readable, non-empty files of a path, a list of paths (comma) or a pattern (* ? [...]), patterns sorted by name. Each
/// thing that is none is an Error (bad_input) that begins with the option's name.
std::vector<std::filesystem::path> find_files(const std::string& option, const std::string& source);

/// Whether they are tokens files (HDF5) rather than text; a mixture is an Error (bad_input).
bool are_token_files(const std::string& option, const std::vector<std::filesystem::path>& files);

/// Hands over a file's text in blocks of some MiB that end between UTF-8 characters, each with its place in the file.
void for_each_block(const std::filesystem::path& file,
                    const std::function<void(std::string_view block, std::size_t offset)>& handle);

/// "a.txt", or "3 files".
std::string name_of(const std::vector<std::filesystem::path>& files);
std::size_t bytes_of(const std::vector<std::filesystem::path>& files);

}  // namespace shoal::data
