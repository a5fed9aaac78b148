// SPDX-License-Identifier: Apache-2.0
// A run over the double of NCCL. nccl_faults_test.cpp lets it fail in several ways.
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "shoal/base/error.hpp"
#include "shoal/comm/watchdog.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/device/queue.hpp"
#include "shoal/device/simulated.hpp"

namespace {

using shoal::Exit;
using shoal::Span;
using shoal::comm::Communicator;
using shoal::comm::Reduce;
using shoal::comm::Request;
using shoal::comm::World;

constexpr double timeout_s = 3;

Exit run(World& world, const std::string& how) {
  shoal::comm::CommOptions options;
  options.timeout = timeout_s;
  options.backend = shoal::comm::Backend::nccl;
  if (how == "two_queues" || how == "behind") options.ranks_per_node = 2;
  options.gather_group = how.ends_with("_apart");
  world.make_groups(options);
  const shoal::comm::Watchdog watchdog(world, options.timeout);
  Span<float> values;
  const shoal::device::DeviceMemory memory(
      [&](shoal::Memory& counting) { values = counting.take<float>(shoal::Kind::gradients, 64, "values"); });
  Communicator& all = world.all();
  const bool last = all.rank() == all.size() - 1;
  const auto sum = [&](std::size_t count) { all.all_reduce(values.first(count), Reduce::sum).wait(); };
  for (int i = 0; i < 3; ++i) sum(64);
  shoal::device::wait_for_queue();
  if (how == "counts") sum(last ? 16 : 32);
  if (how == "order") last ? sum(64) : all.broadcast(shoal::comm::bytes_of(values), 0).wait();
  if (how == "stopped" && last) raise(SIGSTOP);
  if (how == "stuck" && last) shoal::device::simulated::enqueue_waiting([] { return false; });  // on the queue of kernels
  if (how == "behind") world.node().all_reduce(values, Reduce::sum).wait();                     // call 4, in front of call 5
  Request gather, before;
  const auto gather_block = [&] {
    const std::size_t block = values.size() / 2 / static_cast<std::size_t>(all.size());
    const Span<std::byte> whole = shoal::comm::bytes_of(values.last(block * static_cast<std::size_t>(all.size())));
    gather = all.all_gather(
        whole.subspan(static_cast<std::size_t>(all.rank()) * block * sizeof(float), block * sizeof(float)), whole);
  };
  if (how == "gather" || how == "gather_apart") {  // call 5, whatever becomes of call 4
    before = all.all_reduce(values.first(8), Reduce::sum);
    gather_block();
    gather.wait();
    shoal::device::wait_for_queue();
    static_cast<void>(std::fputs("gathered\n", stderr));
    before.wait();
  }
  if (how == "behind_gather_apart") {  // call 4, in front of call 5
    gather_block();
    gather.wait();
  }
  if (how == "two_queues_apart") {  // the device is asked for the second one first
    gather_block();
    before = all.all_reduce(values.first(8), Reduce::sum);
    before.wait();
    shoal::device::wait_for_queue();
    gather.wait();
  }
  if (how == "behind_a_kernel") {
    const shoal::device::OnQueue there(shoal::device::Queue::reduce);
    if (last) shoal::device::simulated::enqueue_waiting([] { return false; });
  }
  if (how == "two_queues") {  // the device is asked for the second one first
    Request first = world.node().broadcast(shoal::comm::bytes_of(values.first(8)), 0);
    Request second = all.all_reduce(values.subspan(32, 8), Reduce::sum);
    second.wait();
    shoal::device::wait_for_queue();
    first.wait();
  }
  if (how == "left_out" && last) {  // the others wait in NCCL, and this rank for a message
    std::vector<std::byte> nothing(1);
    all.receive(nothing, 0, 7).wait();
  }
  for (int i = 0; i < 3; ++i) sum(64);
  shoal::device::wait_for_queue();
  return Exit::done;
}

}  // namespace

int main(int argc, char** argv) {
  World world(argc, argv);
  try {
    return world.agree(static_cast<int>(run(world, argc > 1 ? argv[1] : "done")));
  } catch (const shoal::Error& error) {
    return world.end_with_error(error.code(), error.seen(), error.what());
  }
}
