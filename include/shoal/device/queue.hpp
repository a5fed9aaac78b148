// SPDX-License-Identifier: Apache-2.0
// The order of work on the device: program order is dependency.
//
// A kernel, a copy and the start of a communication enqueue work, and return before it is done. Work on one queue is done in
// the order in which it was enqueued. Queues run beside each other; only events order them. The host sees results after it
// has waited for an event. So code above this layer reads as if each call did its work at once, except that it must not look
// at the device's memory.
//
// The library that a program links decides which device this is: on `host` each call does its work before it returns.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "shoal/base/names.hpp"

namespace shoal::device {

/// Reads the settings of the environment; called once, before all else. Fails if the device does not have them. It needs no
/// GPU: open() (unit.hpp) looks for one.
void start();
/// True if every call does its work before it returns, so that all events are reached.
bool immediate();

/// Kernels and copies go to `compute` unless an OnQueue names another queue, as communicators do.
enum class Queue : std::uint8_t { compute, gather, reduce };
inline constexpr std::size_t queues = 3;
inline constexpr std::array queue_names = {Named{Queue::compute, "compute"}, Named{Queue::gather, "gather"},
                                           Named{Queue::reduce, "reduce"}};
static_assert(queue_names.size() == queues);
constexpr const auto& table_of(Queue) { return queue_names; }

/// Kernels and copies that this thread enqueues go to the given queue until the end of the scope.
class OnQueue {
 public:
  explicit OnQueue(Queue queue);
  ~OnQueue();  // NOLINT(performance-trivially-destructible): it is trivial on the host alone
  OnQueue(const OnQueue&) = delete;
  OnQueue& operator=(const OnQueue&) = delete;

 private:
  [[maybe_unused]] Queue before_;  // some devices do without these members
};

/// The current queue as libraries of the device know it: a cudaStream_t on GPUs, null on the host.
void* stream();

/// Enqueues a copy in any direction between arenas, staging memory and other memory of the host. Both must stay valid and
/// unchanged by the host until the copy is done.
void copy(std::size_t bytes, const void* from, void* to);

/// A place in a queue. An event that was not recorded yet counts as reached.
class Event {
 public:
  /// Behind all that is on the current queue now. The event may be recorded again.
  void record();
  /// What is enqueued on the current queue from now on is done after the event. The host does not wait.
  void before_what_follows() const;
  /// Asks whether all before the event is done.
  bool reached() const;
  /// Waits until it is; messages of the host advance meanwhile. Only what the device finishes is a heartbeat, not the wait.
  void wait() const;

 private:
  [[maybe_unused]] std::uint64_t place_ = 0;
  [[maybe_unused]] Queue queue_ = Queue::compute;
  [[maybe_unused]] mutable int asked_ = 0;
};

/// How often the host has waited for the device: calls of Event::wait(), on all devices. in_pieces() makes such calls if it
/// copies.
std::uint64_t waits();

}  // namespace shoal::device
