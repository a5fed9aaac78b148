// SPDX-License-Identifier: Apache-2.0
// Which buffers of arenas messages have used.
#pragma once

#include "shoal/base/types.hpp"

namespace shoal::device::simulated {

/// To be called when the memory of an arena is released, as long as the Memory object still knows its buffers. With
/// SHOAL_SIMULATE_MESSAGES=unused, names those that were taken for messages and that no message has used.
void forget_messages(Span<const std::byte> arena);

}  // namespace shoal::device::simulated
