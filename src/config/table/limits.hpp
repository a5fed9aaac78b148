// SPDX-License-Identifier: Apache-2.0
// Limits that several options and keys have.
#pragma once

namespace shoal::config {

inline constexpr double most_ranks = 1048576;
/// The number of a step and that of a sample are parts of the keys of random numbers, with 32 bits each.
inline constexpr double most_steps = 4294967295, most_samples = 4294967295;
/// Checkpoints are counted in an int.
inline constexpr double most_checkpoints = 2147483647;

}  // namespace shoal::config
