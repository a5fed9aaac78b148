// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace shoal::model {

/// The layers of which a segment consists (src/model/segments.hpp) when activation.checkpoint_interval = interval: those
/// whose activations are there at one time. All of them: nothing is computed again; otherwise all but so many are.
std::size_t segment_length(std::size_t layers, std::int64_t interval);

}  // namespace shoal::model
