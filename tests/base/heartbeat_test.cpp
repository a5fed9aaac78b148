// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/heartbeat.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

namespace shoal {
namespace of_heartbeat_test {

using namespace std::chrono_literals;

constexpr auto pause = 30ms;
constexpr std::int64_t pause_ns = std::chrono::nanoseconds(pause).count();

std::int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

TEST(Heartbeat, NamesThePhaseThatWasEnteredLast) {
  heartbeat::phase("load");
  EXPECT_STREQ(heartbeat::current_phase(), "load");
  heartbeat::phase("step");
  EXPECT_STREQ(heartbeat::current_phase(), "step");
  heartbeat::beat();
  EXPECT_STREQ(heartbeat::current_phase(), "step");
}

// A sleep is never shorter than asked for, but may be much longer on a busy machine. So the silence is at least the time
// asked for, and at most what a clock around the whole test measures.
TEST(Heartbeat, SilenceGrowsUntilTheNextBeat) {
  const std::int64_t begin = steady_ns();
  heartbeat::beat();
  std::this_thread::sleep_for(pause);
  const std::int64_t silence = heartbeat::silence_ns();
  EXPECT_GE(silence, pause_ns);
  EXPECT_LE(silence, steady_ns() - begin);
}

TEST(Heartbeat, ABeatAndAPhaseEndTheSilence) {
  for (void (*alive)() : {+[] { heartbeat::beat(); }, +[] { heartbeat::phase("data"); }}) {
    heartbeat::beat();
    std::this_thread::sleep_for(pause);
    const std::int64_t begin = steady_ns();
    alive();
    const std::int64_t silence = heartbeat::silence_ns();
    EXPECT_GE(silence, 0);
    EXPECT_LE(silence, steady_ns() - begin);
  }
}

TEST(Heartbeat, AnotherThreadSeesPhaseAndSilence) {
  heartbeat::phase("checkpoint");
  std::string phase;
  std::int64_t silence = -1;
  std::thread([&] {
    std::this_thread::sleep_for(pause);
    phase = heartbeat::current_phase();
    silence = heartbeat::silence_ns();
  }).join();
  EXPECT_EQ(phase, "checkpoint");
  EXPECT_GE(silence, pause_ns);
}

}  // namespace of_heartbeat_test
}  // namespace shoal
