// SPDX-License-Identifier: Apache-2.0
#include "comm/operations/device_operations.hpp"

#include <atomic>
#include <exception>
#include <thread>

#include "shoal/base/error.hpp"
#include "shoal/base/output.hpp"

namespace shoal::comm {

namespace {
std::atomic<void (*)() noexcept> release{nullptr};
}

void set_release_device(void (*function)() noexcept) { release = function; }

void release_device() noexcept {
  void (*const function)() noexcept = release.exchange(nullptr);
  if (function == nullptr) return;
  try {
    std::thread(function).detach();
  } catch (const std::exception& error) {  // no more threads: the process ends all the same
    output::complain(text("shoal: operations of the device are not ended: ", error.what(), "\n"));
  }
}

}  // namespace shoal::comm
