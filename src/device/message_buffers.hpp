// SPDX-License-Identifier: Apache-2.0
// The buffers of arenas that messages use.
#pragma once

#include <cstddef>
#include <functional>

#include "shoal/base/memory.hpp"
#include "shoal/device/memory.hpp"

namespace shoal::device {

/// The image of this memory, which lies in an arena and is not empty; null if it has none, since these calls reach arenas.
/// Fails unless all of it was taken for such calls; the line names the buffer. Calls each(place) for every buffer that has
/// some of it.
std::byte* image_of(Span<const std::byte> memory, Calls calls, const std::function<void(const Memory::Place&)>& each = {});

}  // namespace shoal::device
