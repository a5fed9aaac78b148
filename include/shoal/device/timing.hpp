// SPDX-License-Identifier: Apache-2.0
// When the queues of a device did what was enqueued, by the device's own clock, for the trace. The host only enqueues, so
// the times at which it does so say nothing about kernels. If the host is the device, nothing is timed here: then the events
// that the host records are the truth.
//
// A *span* is what one queue does between two marks on it: one kernel or product, one copy, or one operation between ranks.
// All spans of a step are taken before the first step, and are read when the host has waited for the device anyway, so a
// timed step waits no more often and allocates nothing. They enter the trace by the device's clock; map_to_host() translates
// them when the trace is written.
//
// A kernel that finds its queue empty begins when the host has enqueued it, so its span includes the time from the mark to
// its start, a few microseconds. An operation begins when its queue has come to it, so its span includes the time that it
// waits for other ranks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shoal/base/trace.hpp"
#include "shoal/base/types.hpp"

namespace shoal::device {

/// What a span is. The trace records kernels and copies from Level::kernels on, operations from Level::comm on.
enum class Work : std::uint8_t { kernel, copy, collective };
constexpr trace::Level level_of(Work work) { return work == Work::collective ? trace::Level::comm : trace::Level::kernels; }

/// Times what is enqueued on the current queue during its lifetime. Within another one on the same queue it does nothing, so
/// the spans of a queue do not overlap. Keep it as short as the calls that enqueue: pump() must not be called within it,
/// since the queue's mark would be late.
class Timed {
 public:
  /// name: for the trace. bytes: Event::bytes.
  explicit Timed(const char* name, Work work = Work::kernel, std::uint64_t bytes = 0) {
    if (trace::on(level_of(work))) begin(name, work, bytes);
  }
  ~Timed() { end(); }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;
  /// Ends it before its scope ends.
  void end() {
    if (span_ >= 0) finish();
    span_ = -1;
  }

 private:
  void begin(const char* name, Work work, std::uint64_t bytes);
  void finish() const;

  std::int32_t span_ = -1;  // none
};

/// Takes memory for at most `spans` spans between two calls of read_spans(), and reads both clocks. Called once, when
/// open() (unit.hpp) has chosen the device and trace::start() was called. Without it, nothing is timed.
void start_timing(std::size_t spans);
/// Records in the trace the spans that the device has done, by its own clock, oldest first on each queue, so that their
/// memory can be used again. Does not wait. To be called after each wait for the device.
void read_spans();
/// Reads both clocks, and translates the spans among these events from the device's clock to that of the trace. For events
/// since the last call, or since start_timing(). The clocks are compared within microseconds. Does not count in waits().
void map_to_host(Span<trace::Event> events);
/// How often a span was not timed since start_timing(), because all of them were in use.
std::uint64_t untimed_spans();

}  // namespace shoal::device
