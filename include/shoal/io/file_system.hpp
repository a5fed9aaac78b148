// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace shoal::io {

/// The name of a directory's file system: "Lustre", "ext4"; of others "file system" and its number.
std::string file_system_of(const std::filesystem::path& directory);

}  // namespace shoal::io
