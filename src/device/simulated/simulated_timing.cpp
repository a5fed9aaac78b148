// SPDX-License-Identifier: Apache-2.0
#include "device/simulated/simulated_timing.hpp"

#include <array>
#include <chrono>
#include <vector>

#include "device/marks.hpp"
#include "shoal/base/trace.hpp"

namespace shoal::device {

namespace {

/// The device's clock is another one than the host's: it has another zero, and runs 5 % too fast. So times that are not
/// mapped to the host's clock, or without regard to its drift, are found to be wrong.
std::int64_t clock_ns() {
  constexpr std::int64_t zero = 3'600'000'000'000;
  static const auto start = std::chrono::steady_clock::now();
  const std::int64_t since = std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
  return zero + since + since / 20;
}

struct Marks {
  std::int64_t begin_ns = 0, end_ns = 0;
  std::size_t enqueued = 0;  // pieces of work that are not done
  bool open = false;         // more may come
};

struct State {
  std::vector<Marks> marks;
  std::array<std::size_t, queues> open{};  // by queue: the span that is open, plus 1
};

State& state() {
  static State all;
  return all;
}

}  // namespace

namespace simulated {

std::size_t span_of_work(Queue queue) {
  const std::size_t span = state().open[static_cast<std::size_t>(queue)];
  if (span > 0) ++state().marks[span - 1].enqueued;
  return span;
}

void work_begins(std::size_t span) {
  if (span > 0 && state().marks[span - 1].begin_ns == 0) state().marks[span - 1].begin_ns = clock_ns();
}

void work_ends(std::size_t span) {
  if (span == 0) return;
  Marks& marks = state().marks[span - 1];
  marks.end_ns = clock_ns();
  if (marks.begin_ns == 0) marks.begin_ns = marks.end_ns;  // forgotten by drop()
  --marks.enqueued;
}

}  // namespace simulated

namespace marks {

void reserve(std::size_t spans) { state().marks.resize(spans); }

void begin(std::size_t span) {
  state().marks[span] = {0, 0, 0, true};
  state().open[static_cast<std::size_t>(current_queue())] = span + 1;
}

void end(std::size_t span, Queue queue) {
  Marks& marks = state().marks[span];
  marks.open = false;
  if (marks.begin_ns == 0 && marks.enqueued == 0) marks.begin_ns = marks.end_ns = clock_ns();  // nothing was enqueued
  state().open[static_cast<std::size_t>(queue)] = 0;
}

bool ended(std::size_t span) { return !state().marks[span].open && state().marks[span].enqueued == 0; }

Times read(std::size_t span) {
  const Marks& marks = state().marks[span];
  return {marks.begin_ns, marks.end_ns};
}

void refresh() {}

/// Of several attempts, the one that took least: in the others the process may have been interrupted between the two clocks.
ClockReading read_clocks() {
  ClockReading best;
  std::int64_t least = INT64_MAX;
  for (int attempt = 0; attempt < 8; ++attempt) {
    const std::int64_t before = trace::now_ns(), device = clock_ns(), after = trace::now_ns();
    if (after - before >= least) continue;
    least = after - before;
    best = {device, before + least / 2};
  }
  return best;
}

}  // namespace marks

}  // namespace shoal::device
