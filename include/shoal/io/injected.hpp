// SPDX-License-Identifier: Apache-2.0
// Damage that a user asks for, to try how a run and its scripts take it.
#pragma once

#include <filesystem>

namespace shoal::io {

/// The next write of this process to a checkpoint or trace fails as if the disk had reported an input/output error. Any
/// thread may call it.
void fail_next_write();
/// The next bytes of this process that go down to a tier on a disk are changed there.
void flip_next_block();
/// The next transfer between memory and a tier on a disk fails as if the disk had reported an input/output error.
void fail_next_transfer();
/// Changes one byte in the middle of a file.
void flip_byte(const std::filesystem::path& file);

}  // namespace shoal::io
