// SPDX-License-Identifier: Apache-2.0
// Marks are CUDA's events, which are all made at the start.
//
// [Note: the GPU's clock] CUDA tells only how much time lies between two events, as a float of milliseconds, which is
// coarser the more time it is. So there is a chain of reference events on a stream of its own, one for each call of
// refresh():
//     time(span) = time(ref) + elapsed(ref, span), with the last ref that the GPU had passed when the span was enqueued;
//     time(ref i) = time(ref i-1) + elapsed(ref i-1, ref i).
// A step of a second is so rounded to 60 ns; the sum of such errors over many steps is drift of the clock, which ClockMap
// takes out.
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "cuda_state.hpp"
#include "marks.hpp"
#include "shoal/base/trace.hpp"

namespace shoal::device::marks {

namespace {

cudaEvent_t new_event() {
  cudaEvent_t event = nullptr;
  cuda::check(cudaEventCreate(&event), "cudaEventCreate");
  return event;
}

bool passed(cudaEvent_t event) {
  const cudaError_t status = cudaEventQuery(event);
  if (status != cudaErrorNotReady) cuda::check(status, "cudaEventQuery");
  return status == cudaSuccess;
}

struct Reference {
  cudaEvent_t event = nullptr;
  std::int64_t device_ns = 0;
  std::size_t spans = 0;  // that were not read and count from it
};

struct Marks {
  cudaEvent_t begin = nullptr, end = nullptr;
  std::size_t reference = 0;
};

/// More references than these are in use only if a queue has not ended a span of some steps ago; then there are no new ones
/// until it has.
constexpr std::size_t most_references = 8;

struct State {
  std::vector<Marks> marks;
  std::array<Reference, most_references> references;
  std::size_t newest = 0;              // that the GPU has passed
  std::optional<std::size_t> pending;  // recorded, but maybe not passed
  cudaStream_t stream = nullptr;       // of references alone, so that they wait for no kernel
  cudaEvent_t reading = nullptr;
};

State& state() {
  static auto* const all = new State;  // never destroyed, since CUDA may end before static objects do
  return *all;
}

std::int64_t after(const Reference& reference, cudaEvent_t event) {
  float milliseconds = 0;
  cuda::check(cudaEventElapsedTime(&milliseconds, reference.event, event), "cudaEventElapsedTime");
  return reference.device_ns + std::llround(1e6 * static_cast<double>(milliseconds));
}

void record_and_wait(cudaEvent_t event) {
  cuda::check(cudaEventRecord(event, state().stream), "cudaEventRecord");
  while (!passed(event)) {
  }
}

}  // namespace

void reserve(std::size_t spans) {
  State& s = state();
  cuda::check(cudaStreamCreateWithFlags(&s.stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  s.reading = new_event();
  for (Reference& reference : s.references) reference.event = new_event();
  s.marks.resize(spans);
  for (Marks& marks : s.marks) marks = {new_event(), new_event(), 0};
  record_and_wait(s.references[0].event);
}

void begin(std::size_t span) {
  State& s = state();
  Marks& marks = s.marks[span];
  marks.reference = s.newest;
  ++s.references[s.newest].spans;
  cuda::check(cudaEventRecord(marks.begin, cuda::stream_of(current_queue())), "cudaEventRecord");
}

/// The end of a span must not throw, since an exception may be on its way. An error is one of the GPU, which the next call
/// finds.
void end(std::size_t span, Queue queue) {
  static_cast<void>(cudaEventRecord(state().marks[span].end, cuda::stream_of(queue)));
}

bool ended(std::size_t span) { return passed(state().marks[span].end); }

Times read(std::size_t span) {
  const Marks& marks = state().marks[span];
  Reference& reference = state().references[marks.reference];
  --reference.spans;
  return {after(reference, marks.begin), after(reference, marks.end)};
}

void refresh() {
  State& s = state();
  if (s.pending) {
    Reference& reference = s.references[*s.pending];
    if (!passed(reference.event)) return;
    reference.device_ns = after(s.references[s.newest], reference.event);
    s.newest = *s.pending;
    s.pending.reset();
  }
  const std::size_t next = (s.newest + 1) % most_references;
  if (s.references[next].spans > 0) return;
  cuda::check(cudaEventRecord(s.references[next].event, s.stream), "cudaEventRecord");
  s.pending = next;
}

/// The event is recorded between the two moments of the host, on a stream that has nothing else to do. Of several attempts,
/// the one counts that took least.
ClockReading read_clocks() {
  State& s = state();
  ClockReading best;
  std::int64_t least = INT64_MAX;
  for (int attempt = 0; attempt < 8; ++attempt) {
    const std::int64_t before = trace::now_ns();
    record_and_wait(s.reading);
    const std::int64_t took = trace::now_ns() - before;
    if (took >= least) continue;
    least = took;
    best = {after(s.references[s.newest], s.reading), before + took / 2};
  }
  return best;
}

}  // namespace shoal::device::marks
