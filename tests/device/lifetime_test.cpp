// SPDX-License-Identifier: Apache-2.0
// When memory of the simulated device may be used, and what happens at its end. A use at the wrong time ends the program,
// with a message that names the buffer. The work is that of lambdas, since the threads of kernels do not exist in the
// process that a death test starts.
#include <gtest/gtest.h>

#include <stdexcept>

#include "device/buffers.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/device/queue.hpp"
#include "shoal/device/simulated.hpp"

namespace shoal::device {
namespace of_lifetime_test {

TEST(FaultsDeathTest, TheHostCannotTouchAnArena) {
  DeviceMemory memory(planned());
  const Buffers buffers(memory);
  EXPECT_DEATH(buffers.x[16] = 1.0F, "host accessed memory of the device .*: gradients: weights, byte 64 of 256");
  EXPECT_DEATH(buffers.tokens[0] = buffers.y[0], "host accessed memory .*: buffers: messages, byte 0 of 256");
  simulated::enqueue([&] { buffers.y[0] = 1.0F; });
  wait_for_queue();
  EXPECT_DEATH(buffers.y[1] = 1.0F, "host accessed memory .*: buffers: messages, byte 4 of 256");
}

/// Enqueues work(buffers), and lets the device do it when the memory is released.
template <typename Work>
void use_too_late(const Work& work) {
  {
    Memory memory(planned(), arenas(), staging());
    const Buffers buffers(memory);
    simulated::enqueue([=] { work(buffers); });
  }
  wait_for_queue();
}

TEST(FaultsDeathTest, EnqueuedWorkCannotUseReleasedMemory) {
  EXPECT_DEATH(use_too_late([](const Buffers& buffers) { buffers.y[2] = 1.0F; }),
               "released memory of the device.*: buffers: messages, byte 8 of 256");
  EXPECT_DEATH(use_too_late([](const Buffers& buffers) { buffers.tokens[1] = 1.0F; }),
               "released memory of the device.*: staging: tokens, byte 4 of 256");
}

TEST(Faults, EnqueuedWorkMayOutliveMemoryThatItDoesNotUse) {
  bool done = false;
  use_too_late([&](const Buffers&) { done = true; });
  EXPECT_TRUE(done);
}

TEST(EndOfMemory, WaitsForItsUse) {
  float last = 0;
  {
    DeviceMemory memory(planned());
    const Buffers buffers(memory);
    simulated::enqueue([&] { buffers.x[0] = 9.0F; });
    copy(sizeof(float), buffers.x.data(), &last);
    EXPECT_TRUE(simulated::pending());
  }
  EXPECT_EQ(last, 9.0F);
}

TEST(EndOfMemory, DropsWhatIsEnqueuedIfAnExceptionEndsIt) {
  bool done = false;
  try {
    const DeviceMemory memory(planned());
    simulated::enqueue([&] { done = true; });
    throw std::runtime_error("a run fails");
  } catch (const std::runtime_error&) {
    EXPECT_FALSE(simulated::pending());
  }
  wait_for_device();
  EXPECT_FALSE(done);
  simulated::enqueue([&] { done = true; });
  wait_for_device();
  EXPECT_TRUE(done);
}

}  // namespace of_lifetime_test
}  // namespace shoal::device
