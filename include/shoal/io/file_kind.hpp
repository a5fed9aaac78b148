// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace shoal::io {

/// What a file that shoal writes is, told by its content.
enum class FileKind { checkpoint, trace, tokens };

/// bad_input() that names the file and what was looked for, where it is none of these.
FileKind file_kind(const std::filesystem::path& file);

}  // namespace shoal::io
