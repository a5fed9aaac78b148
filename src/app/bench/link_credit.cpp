// SPDX-License-Identifier: Apache-2.0
#include "app/bench/link_credit.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "app/support/collective.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/kernels/bytes.hpp"

namespace shoal::app {

namespace {

using Clock = std::chrono::steady_clock;

/// Of one exchange: less than what waits at a slow link until packets are dropped (50 ms at 0.05 Gbit/s, and the bucket),
/// since TCP then stops for a while.
constexpr std::size_t bytes_of_node = std::size_t{1} << 19U;
constexpr std::size_t repetitions = 7;

}  // namespace

double link_credit_bytes(comm::World& world, const plan::Link& across) {
  heartbeat::phase("bench");
  comm::Communicator& group = world.across();
  const int nodes = group.size(), to = (group.rank() + 1) % nodes, from = (group.rank() + nodes - 1) % nodes;
  const auto ranks_of_node = static_cast<std::size_t>(largest(world.all(), world.node().size()));
  const std::size_t floats = bytes_of_node / sizeof(float) / ranks_of_node;
  Span<float> sent, received;
  const device::DeviceMemory memory([&](Memory& m) {
    sent = m.take<float>(Kind::buffers, floats, "sent", Use::messages);
    received = m.take<float>(Kind::buffers, floats, "received", Use::messages);
  });
  kernels::fill(floats, 0.0F, sent.data());
  const auto exchange_s = [&] {
    world.all().barrier().wait();
    const Clock::time_point begin = Clock::now();
    if (nodes > 1) group.exchange({{to, comm::bytes_of(sent)}}, {{from, comm::bytes_of(received)}}, 0).wait();
    return largest(world.all(), std::chrono::duration<double>(Clock::now() - begin).count());
  };
  double after_pause = exchange_s(), after_another = exchange_s();
  for (std::size_t i = 0; i < repetitions; ++i) {
    std::this_thread::sleep_for(std::chrono::duration<double>(after_another));
    after_pause = std::min(after_pause, exchange_s());
    after_another = std::min(after_another, exchange_s());
  }
  const double s_per_byte = across.s_per_byte / static_cast<double>(ranks_of_node);
  return s_per_byte > 0 ? std::max(0.0, after_another - after_pause) / s_per_byte : 0;
}

}  // namespace shoal::app
