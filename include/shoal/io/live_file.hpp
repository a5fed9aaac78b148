// SPDX-License-Identifier: Apache-2.0
// Reading a file that a run may be writing at this moment. A run flushes its trace in several writes, and a reader that
// comes between two of them finds a file that contradicts itself. A moment later it is whole again. A damaged file stays as
// it is, and that tells the two apart.
#pragma once

#include <filesystem>
#include <functional>

namespace shoal::io {

struct LiveLimits {
  double unchanged_s = 2;      ///< a file that does not change for so long is not in the middle of a flush
  double longest_s = 30;       ///< how long a file that goes on changing is tried
  std::function<void()> wait;  ///< between two looks at the file; empty: 20 ms
};

/// Calls read(). If it throws an Error that may come from the middle of a flush, waits until the file changes, and calls it
/// again. The error remains if the file is no HDF5 file, has a seal, was last changed more than a minute ago, or if a call
/// of the system failed. After one of the limits the error's message says which of them it was.
void read_live(const std::filesystem::path& file, const std::function<void()>& read, const LiveLimits& limits = {});

}  // namespace shoal::io
