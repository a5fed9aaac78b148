// SPDX-License-Identifier: Apache-2.0
// The spans of all queues, the same on all devices that time them.
#include "shoal/device/timing.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "clock_map.hpp"
#include "marks.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/device/queue.hpp"

namespace shoal::device {

namespace {

/// The spans of a queue that were not read yet, oldest first.
class Unread {
 public:
  void reserve(std::size_t spans) { spans_.resize(spans); }
  bool empty() const { return count_ == 0; }
  std::size_t size() const { return count_; }
  std::size_t operator[](std::size_t i) const { return spans_[(first_ + i) % spans_.size()]; }
  void push(std::size_t span) { spans_[(first_ + count_++) % spans_.size()] = span; }
  std::size_t pop() {
    const std::size_t span = spans_[first_];
    first_ = (first_ + 1) % spans_.size();
    --count_;
    return span;
  }

 private:
  std::vector<std::size_t> spans_;
  std::size_t first_ = 0, count_ = 0;
};

struct TimedQueue {
  Unread unread;
  bool within = false;               // whether a span is open
  std::int64_t last_ns = INT64_MIN;  // the end of the last span that was read
};

struct Timing {
  std::vector<trace::Event> events;  // by span; their times are filled in when they are read
  std::vector<std::size_t> unused;
  std::array<TimedQueue, queues> lines;
  ClockMap clocks;
  std::uint64_t untimed = 0;
  bool started = false;

  TimedQueue& line(Queue queue) { return lines[static_cast<std::size_t>(queue)]; }
};

Timing& timing() {
  static Timing all;
  return all;
}

trace::Kind kind_of(Work work) {
  switch (work) {
    case Work::kernel: return trace::Kind::device_kernel;
    case Work::copy: return trace::Kind::device_copy;
    case Work::collective: break;
  }
  return trace::Kind::device_collective;
}

/// How many of the spans have ended: the first ones of their queue.
std::size_t ended(const Unread& unread) {
  std::size_t least = 0, most = unread.size();
  while (least < most) {
    const std::size_t middle = (least + most) / 2;
    if (marks::ended(unread[middle])) {
      least = middle + 1;
    } else {
      most = middle;
    }
  }
  return least;
}

}  // namespace

void Timed::begin(const char* name, Work work, std::uint64_t bytes) {
  Timing& t = timing();
  if (!t.started) return;
  const Queue queue = marks::current_queue();
  TimedQueue& line = t.line(queue);
  if (line.within) return;
  if (t.unused.empty()) {
    ++t.untimed;
    return;
  }
  const std::size_t span = t.unused.back();
  t.unused.pop_back();
  trace::Event& event = t.events[span];
  event = {};
  event.bytes = bytes;
  event.name = trace::name_index(name);
  event.step = trace::step();
  event.unit = trace::unit();
  event.kind = static_cast<std::uint16_t>(kind_of(work));
  event.micro = trace::micro();
  event.queue = static_cast<std::int16_t>(static_cast<std::size_t>(queue) + 1);
  line.within = true;
  line.unread.push(span);
  span_ = static_cast<std::int32_t>(span);
  marks::begin(span);
}

void Timed::finish() const {
  const auto span = static_cast<std::size_t>(span_);
  const auto queue = static_cast<Queue>(timing().events[span].queue - 1);
  timing().line(queue).within = false;
  marks::end(span, queue);
}

void start_timing(std::size_t spans) {
  Timing& t = timing();
  if (t.started) return;
  t.events.resize(spans);
  t.unused.reserve(spans);
  for (std::size_t span = spans; span > 0; --span) t.unused.push_back(span - 1);
  for (TimedQueue& line : t.lines) line.unread.reserve(spans);
  marks::reserve(spans);
  t.clocks.add(marks::read_clocks());
  t.started = true;
}

void read_spans() {
  Timing& t = timing();
  if (!t.started) return;
  for (TimedQueue& line : t.lines) {
    for (std::size_t count = ended(line.unread); count > 0; --count) {
      const std::size_t span = line.unread.pop();
      const auto [begin, end] = marks::read(span);
      trace::Event& event = t.events[span];
      // Times of a device are rounded, so that a span may seem to begin before the one before it has ended.
      event.begin_ns = std::max(begin, line.last_ns);
      event.duration_ns = std::max<std::int64_t>(end - event.begin_ns, 0);
      line.last_ns = event.begin_ns + event.duration_ns;
      trace::record(event);
      t.unused.push_back(span);
    }
  }
  marks::refresh();
}

void map_to_host(Span<trace::Event> events) {
  Timing& t = timing();
  if (!t.started) return;
  t.clocks.add(marks::read_clocks());
  for (trace::Event& event : events) {
    if (event.queue == 0) continue;
    const std::int64_t end = t.clocks.host_ns(event.begin_ns + event.duration_ns);
    event.begin_ns = t.clocks.host_ns(event.begin_ns);
    event.duration_ns = end - event.begin_ns;
  }
}

const char* name_of_copy(const void* from, const void* to) {
  if (!trace::on(level_of(Work::copy))) return "";
  const bool from_arena = holds(from), to_arena = holds(to);
  if (from_arena == to_arena) return "copy";
  return to_arena ? "copy to device" : "copy to host";
}

std::uint64_t untimed_spans() { return timing().untimed; }

}  // namespace shoal::device
