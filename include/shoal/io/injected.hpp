// SPDX-License-Identifier: Apache-2.0
// Damage that a user asks for, to try how a run and its scripts take it.
#pragma once

#include <filesystem>

namespace shoal::io {

/// The next write of this process to a checkpoint or trace fails as if the disk had reported an input/output error. Any
/// thread may call it.
void fail_next_write();
/// Changes one byte in the middle of a file.
void flip_byte(const std::filesystem::path& file);

}  // namespace shoal::io
