// SPDX-License-Identifier: Apache-2.0
#include "comm/operations/device_operations.hpp"

#include <atomic>
#include <cstdio>
#include <exception>
#include <thread>

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
    static_cast<void>(std::fprintf(stderr, "shoal: operations of the device are not ended: %s\n", error.what()));
  }
}

}  // namespace shoal::comm
