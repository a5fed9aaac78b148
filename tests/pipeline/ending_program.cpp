// SPDX-License-Identifier: Apache-2.0
// A pipeline of which stage 1 ends, or does not go on, in its first backward pass. ending_test.cpp checks what is said.
//   ending_program HOW [nccl]
#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/comm/watchdog.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/kernels/bytes.hpp"
#include "shoal/pipeline/runner.hpp"

namespace {

using shoal::Exit;
using shoal::Span;
using shoal::comm::World;
using shoal::pipeline::Borders;

constexpr double timeout_s = 3;
constexpr std::size_t border_bytes = 4096;

void fill(Span<std::byte> border) {
  if (!border.empty()) {
    shoal::kernels::fill(border.size() / sizeof(float), 1.0F, reinterpret_cast<float*>(border.data()));
  }
}

class Stage final : public shoal::pipeline::Stage {
 public:
  explicit Stage(std::string ends) : ends_(std::move(ends)) {}
  void forward(int /*part*/, std::size_t /*turn*/, const Borders& borders) override { fill(borders.out); }
  void backward(int /*part*/, std::size_t /*turn*/, const Borders& borders) override {
    if (ends_ == "killed") raise(SIGKILL);
    if (ends_ == "stopped") raise(SIGSTOP);
    if (ends_ == "stalled") std::this_thread::sleep_for(std::chrono::seconds(100));
    if (ends_ == "fails") shoal::fail("the disk is on fire");
    fill(borders.out);
  }

 private:
  std::string ends_;
};

Exit run(World& world, const std::string& how, bool nccl) {
  shoal::comm::CommOptions options;
  options.timeout = timeout_s;
  if (nccl) options.backend = shoal::comm::Backend::nccl;
  world.make_groups(options, {1, world.size()});
  const shoal::comm::Watchdog watchdog(world, options.timeout);
  const shoal::pipeline::ScheduleShape shape{world.size(), world.rank(), 1, 4};
  const shoal::pipeline::Lists lists = lists_of(shoal::pipeline::Schedule::one_f_one_b, shape);
  shoal::Memory counting(shoal::device::images());
  shoal::pipeline::Runner(nullptr, lists, shape, border_bytes, counting);
  shoal::device::DeviceMemory memory(counting.taken());  // outlives what is still received when a stage fails
  shoal::pipeline::Runner runner(&world.pipeline(), lists, shape, border_bytes, memory);
  shoal::heartbeat::phase("step");
  shoal::trace::set_step(17);
  Stage stage(world.rank() == 1 ? how : "done");
  runner.train(stage);
  shoal::device::wait_for_device();
  world.all().barrier().wait();
  return Exit::done;
}

}  // namespace

int main(int argc, char** argv) {
  World world(argc, argv);
  try {
    return world.agree(static_cast<int>(run(world, argc > 1 ? argv[1] : "done", argc > 2)));
  } catch (const shoal::Error& error) {
    return world.end_with_error(error.code(), error.seen(), error.what());
  }
}
