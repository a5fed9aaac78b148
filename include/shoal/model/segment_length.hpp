// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace shoal::model {

/// Number of layers of a segment (src/model/segments.hpp) for activation.checkpoint_interval = interval: the activations of
/// this many layers are in memory at the same time, and backward computes those of all other layers again.
std::size_t segment_length(std::size_t layers, std::int64_t interval);

}  // namespace shoal::model
