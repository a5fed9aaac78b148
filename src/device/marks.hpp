// SPDX-License-Identifier: Apache-2.0
// What a device does to time spans (include/shoal/device/timing.hpp). Each span has two marks on its queue.
#pragma once

#include <cstddef>
#include <cstdint>

#include "clock_map.hpp"
#include "shoal/device/queue.hpp"

namespace shoal::device {

/// How the trace names a copy(); empty if it records none.
const char* name_of_copy(const void* from, const void* to);

namespace marks {

/// Makes the marks of `spans` spans.
void reserve(std::size_t spans);
Queue current_queue();
/// Marks the begin on the current queue.
void begin(std::size_t span);
/// Marks the end on the queue of the begin.
void end(std::size_t span, Queue queue);
/// Whether the device has passed the end.
bool ended(std::size_t span);
struct Times {
  std::int64_t begin_ns = 0, end_ns = 0;  // of the device's clock
};
/// Of a span that has ended, which may then be used again.
Times read(std::size_t span);
/// Called between steps, after spans were read.
void refresh();
/// Reads both clocks; may wait for microseconds.
ClockReading read_clocks();

}  // namespace marks

}  // namespace shoal::device
