// SPDX-License-Identifier: Apache-2.0
// Queues as CUDA's streams. An Event is a number of its queue; the CUDA events of the numbers that were not seen as reached
// yet stand in a line, from the oldest to the newest, and are used again afterwards.
//
// What the device finishes is a heartbeat. Between two events of a program there may be a whole step, so further events are
// recorded as marks, one after so many launches: a wait in which no mark is reached for comm.timeout hangs.
#include <array>
#include <deque>
#include <thread>
#include <vector>

#include "cuda_state.hpp"
#include "marks.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/quiet_pump.hpp"
#include "shoal/device/queue.hpp"
#include "shoal/device/timing.hpp"

namespace shoal::device {

namespace {

constexpr std::uint64_t launches_between_marks = 64;

struct Line {
  cudaStream_t stream = nullptr;
  std::uint64_t recorded = 0, reached = 0;  // numbers of events
  std::uint64_t launches = 0;
  std::deque<cudaEvent_t> waiting;  // of the events reached + 1 .. recorded
};

class Queues {
 public:
  Queue& current() { return current_; }
  Line& line(Queue queue) { return lines_[static_cast<std::size_t>(queue)]; }
  Line& here() {
    require(cuda::is_open(), "the GPU was not started before its use");
    return line(current_);
  }
  std::uint64_t& waits() { return waits_; }

  /// Blocks of messages go before waiting blocks of kernels: otherwise a message waits until a product has no blocks left.
  void start() {
    int lowest = 0, highest = 0;
    cuda::check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
    for (const Named<Queue>& queue : queue_names) {
      cuda::check(cudaStreamCreateWithPriority(&line(queue.value).stream, cudaStreamNonBlocking,
                                               queue.value == Queue::compute ? lowest : highest),
                  "cudaStreamCreateWithPriority");
    }
  }

  /// The current queue's, for a launch.
  cudaStream_t stream_of_launch() {
    Line& line = here();
    if (++line.launches % launches_between_marks == 0) record();
    return line.stream;
  }

  std::uint64_t record() {
    Line& line = here();
    retire(line);
    line.waiting.push_back(unused());
    cuda::check(cudaEventRecord(line.waiting.back(), line.stream), "cudaEventRecord");
    return ++line.recorded;
  }

  bool reached(Queue queue, std::uint64_t place) {
    Line& of = line(queue);
    if (of.reached < place) retire_all();  // the queue may wait for another one, whose progress counts
    return of.reached >= place;
  }

  void let_current_wait(Queue queue, std::uint64_t place) {
    Line& of = line(queue);
    if (queue == current_ || of.reached >= place) return;
    const cudaEvent_t event = of.waiting[static_cast<std::size_t>(place - of.reached - 1)];
    cuda::check(cudaStreamWaitEvent(here().stream, event, 0), "cudaStreamWaitEvent");
  }

 private:
  void retire_all() {
    for (Line& line : lines_) retire(line);
  }

  /// Takes reached events out of the line.
  void retire(Line& line) {
    while (!line.waiting.empty()) {
      const cudaError_t status = cudaEventQuery(line.waiting.front());
      if (status == cudaErrorNotReady) return;
      cuda::check(status, "cudaEventQuery");
      unused_.push_back(line.waiting.front());
      line.waiting.pop_front();
      ++line.reached;
      heartbeat::beat();
    }
  }

  cudaEvent_t unused() {
    if (unused_.empty()) {
      cudaEvent_t event = nullptr;
      cuda::check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
      return event;
    }
    const cudaEvent_t event = unused_.back();
    unused_.pop_back();
    return event;
  }

  std::array<Line, queues> lines_;
  std::vector<cudaEvent_t> unused_;
  Queue current_ = Queue::compute;
  std::uint64_t waits_ = 0;
};

/// Never destroyed, since CUDA may end before static objects do.
Queues& all() {
  static auto* const queues = new Queues;
  return *queues;
}

}  // namespace

void cuda::start_queues() { all().start(); }
cudaStream_t cuda::stream_of(Queue queue) { return all().line(queue).stream; }
Queue marks::current_queue() { return all().current(); }

OnQueue::OnQueue(Queue queue) : before_(all().current()) { all().current() = queue; }
OnQueue::~OnQueue() { all().current() = before_; }

void* stream() { return all().stream_of_launch(); }

void copy(std::size_t bytes, const void* from, void* to) {
  if (bytes == 0) return;
  const Timed timed(name_of_copy(from, to), Work::copy, bytes);
  cuda::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, all().here().stream), "cudaMemcpyAsync");
}

void Event::record() {
  queue_ = all().current();
  place_ = all().record();
}

void Event::before_what_follows() const { all().let_current_wait(queue_, place_); }

bool Event::reached() const { return all().reached(queue_, place_); }

// The host sends and receives messages meanwhile: what the device waits for may depend on them.
void Event::wait() const {
  ++all().waits();
  while (!reached()) {
    quiet_pump();
    std::this_thread::yield();
  }
}

std::uint64_t waits() { return all().waits(); }

}  // namespace shoal::device
