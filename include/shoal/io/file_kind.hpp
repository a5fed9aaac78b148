// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace shoal::io {

/// The kinds of HDF5 files that shoal writes.
enum class FileKind { checkpoint, trace, tokens };

/// Finds the kind of a file by its content. bad_input() if it is none of these.
FileKind file_kind(const std::filesystem::path& file);

}  // namespace shoal::io
