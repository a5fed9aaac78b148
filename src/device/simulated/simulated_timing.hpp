// SPDX-License-Identifier: Apache-2.0
// The spans of the simulated device. Its marks are not work of their own: each piece of work knows its span, so that the
// order in which work is done does not depend on whether it is timed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shoal/device/queue.hpp"

namespace shoal::device::simulated {

/// The span that work enqueued on this queue now belongs to, to be handed to the functions below; 0 if there is none.
std::size_t span_of_work(Queue queue);
void work_begins(std::size_t span);  ///< again if the work had to wait: the first time counts
void work_ends(std::size_t span);

}  // namespace shoal::device::simulated
