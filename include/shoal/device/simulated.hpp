// SPDX-License-Identifier: Apache-2.0
// A device that behaves as badly as a GPU may, simulated by the processor. It finds missing events and waits, and a host
// that touches the device's memory; src/device/README.md says what it does not find.
//
// - Work that is enqueued is not done before somebody waits for it (SHOAL_SIMULATE=late, the default), or it is done in an
//   order that is drawn from a seed among all that the events permit (SHOAL_SIMULATE=seed:N; ranks draw different orders).
//   With SHOAL_SIMULATE=in-order each call does its work at once. If results differ, an event is missing. What is drawn also
//   depends on when messages arrive, so a seed makes the orders differ, but does not repeat one exactly.
// - Arenas can be read and written only while the device works. If the host does so at another time, the program ends with a
//   message that names the buffer.
// - A message of memory that was not taken for messages (Memory::take()) fails, even if the library reaches arenas. With
//   SHOAL_SIMULATE_MESSAGES=unused, memory that is released names what was taken for messages and not used by any.
// - Memory that is released while work is enqueued stays reserved, and cannot be read or written any more. If that work uses
//   it, the program ends with a message that names the buffer.
#pragma once

#include <cstddef>
#include <functional>

namespace shoal::device::simulated {

/// Enqueues work on the current queue. If the work throws, whoever lets the device work gets the exception, and the work
/// counts as done.
void enqueue(std::function<void()> work);
/// The same for work that may have to wait for other processes: it is called again until it returns true. What follows it
/// on its queue waits too. Whoever waits for it lets the device do what other processes may wait for.
void enqueue_waiting(std::function<bool()> work);
/// The address at which work may let a message-passing library read and write memory of an arena, at any time. The address
/// itself if it lies elsewhere.
std::byte* address_for_messages(const void* address);
/// Does all work of the current queue, and the work of other queues that it waits for.
void finish_current();
/// True if work is enqueued on any queue.
bool pending();
/// Forgets all work of all queues, which counts as done then.
void drop();

/// Arenas can be read and written during the lifetime of such an object.
class Opened {
 public:
  Opened();
  ~Opened();
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
};

}  // namespace shoal::device::simulated
