// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/heartbeat.hpp"

#include <atomic>
#include <chrono>

namespace shoal::heartbeat {

namespace {
std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
std::atomic<const char*> current{"start"};
std::atomic<std::int64_t> last{now()};
}  // namespace

void phase(const char* name) {
  current.store(name, std::memory_order_relaxed);
  beat();
}
void beat() { last.store(now(), std::memory_order_relaxed); }
const char* current_phase() { return current.load(std::memory_order_relaxed); }
std::int64_t silence_ns() { return now() - last.load(std::memory_order_relaxed); }

}  // namespace shoal::heartbeat
