// SPDX-License-Identifier: Apache-2.0
// The processor itself as the device: each call does its work before it returns, so queues are always empty.
#include <cstdlib>
#include <cstring>

#include "shoal/base/error.hpp"
#include "shoal/device/kind.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/device/queue.hpp"
#include "shoal/device/tier.hpp"

namespace shoal::device {

namespace {
std::uint64_t waits_of_host = 0;
}

Allocator arenas() { return pages(); }
Allocator staging() { return pages(); }
bool holds(const void* /*address*/) { return false; }
bool kernels_reach(Where where) { return where != Where::nvme; }
std::byte* for_messages(Span<const std::byte> memory, Access /*access*/, Calls /*calls*/) {
  return const_cast<std::byte*>(memory.data());
}
void received(Span<std::byte> /*memory*/, Calls /*calls*/) {}

void in_pieces(Span<float> values, Access access, std::size_t alignment,
               const std::function<void(std::size_t first, Span<float> piece)>& use) {
  if (values.empty()) return;
  if (Tier* const tier = tier_of(values.data())) return in_pieces_of_tier(*tier, values, access, alignment, use);
  use(0, values);
}
std::size_t piece_bytes() { return 0; }

DeviceKind kind() { return DeviceKind::host; }
bool immediate() { return true; }
void start() {
  const char* const simulated = std::getenv("SHOAL_SIMULATE");
  require_input(simulated == nullptr, "SHOAL_SIMULATE=", simulated == nullptr ? "" : simulated,
                ": this program computes on the host; only shoal_simulated, which the tests build, has a simulated device");
}

OnQueue::OnQueue(Queue queue) : before_(queue) {}
OnQueue::~OnQueue() = default;

void* stream() { return nullptr; }

void copy(std::size_t bytes, const void* from, void* to) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void Event::record() {}
void Event::before_what_follows() const {}
bool Event::reached() const { return true; }
void Event::wait() const { ++waits_of_host; }

std::uint64_t waits() { return waits_of_host; }

}  // namespace shoal::device
