// SPDX-License-Identifier: Apache-2.0
// How operations that the device carries out by itself take part in progress(), in inquiries and in the end of a run.
#pragma once

#include "shoal/comm/communicator.hpp"

namespace shoal::comm {

class DeviceOperations {
 public:
  virtual ~DeviceOperations() = default;
  /// Called by progress(), also within advance() of an operation. Fails if an operation has failed.
  virtual void check() = 0;
  struct Waiting {
    const Operation* operation = nullptr;
    double seconds = 0;
  };
  /// The first operation that the device has come to and has not finished, and for how long it waits; no operation if there
  /// is none. If other ranks ask whether this one is alive, it answers that it waits for this operation.
  virtual Waiting waiting() const = 0;
};
/// There is one at a time, the one that was added last.
void add_device_operations(DeviceOperations& operations);
void remove_device_operations(const DeviceOperations& operations);

/// Interval and callback that set_long_wait() has installed (comm/wait.hpp). Without a callback long_wait() returns false.
double long_wait_interval();
bool long_wait(const Operation& operation, double seconds);

/// Installs what ends operations of the device that will never be complete, so that the process can end. Any thread may call
/// it.
void set_release_device(void (*function)() noexcept);
/// Calls it on a thread of its own, since it may not return. To be called shortly before the process ends.
void release_device() noexcept;

}  // namespace shoal::comm
