// SPDX-License-Identifier: Apache-2.0
// A run over the double of NCCL. nccl_faults_test.cpp lets it fail in several ways.
#include <csignal>
#include <string>
#include <vector>

#include "shoal/base/error.hpp"
#include "shoal/comm/watchdog.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/device/simulated.hpp"

namespace {

using shoal::Exit;
using shoal::Span;
using shoal::comm::Communicator;
using shoal::comm::Reduce;
using shoal::comm::World;

constexpr double timeout_s = 3;

Exit run(World& world, const std::string& how) {
  shoal::comm::CommOptions options;
  options.timeout = timeout_s;
  options.backend = shoal::comm::Backend::nccl;
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
