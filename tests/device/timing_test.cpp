// SPDX-License-Identifier: Apache-2.0
// What the queues of the simulated device did is timed by its clock, in the order of each queue, and mapped to the host's.
#include "shoal/device/timing.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "device/buffers.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/device/queue.hpp"
#include "shoal/device/simulated.hpp"
#include "shoal/kernels/bytes.hpp"
#include "src/device/clock_map.hpp"

namespace shoal::device {
namespace of_timing_test {

constexpr std::size_t most_spans = 8;

std::string name_of(const trace::Event& event) { return trace::names().at(static_cast<std::size_t>(event.name)); }
std::int64_t end_of(const trace::Event& event) { return event.begin_ns + event.duration_ns; }

class Timing : public testing::Test {
 protected:
  void SetUp() override {
    trace::start(trace::Level::kernels, 100);
    start_timing(most_spans);
  }
  void TearDown() override {
    wait_for_device();
    read_spans();
    trace::drain();
    trace::stop();
    trace::set_step(0);
  }
  void fill(Queue queue, float value) {
    const OnQueue there(queue);
    kernels::fill(64, value, (queue == Queue::compute ? buffers_.x : buffers_.y).data());
  }
  /// By the host's clock.
  static std::vector<trace::Event> done() {
    read_spans();
    std::vector<trace::Event> events = trace::drain();
    map_to_host(events);
    return events;
  }

  DeviceMemory memory_{planned()};
  Buffers buffers_{memory_};
};

TEST_F(Timing, ASpanIsWhenTheQueueDidItsWork) {
  using namespace std::chrono_literals;
  constexpr std::int64_t tolerance_ns = 1'000'000;  // of a reading of both clocks, which may be interrupted eight times
  trace::set_step(7);
  fill(Queue::compute, 1.0F);
  fill(Queue::gather, 2.0F);
  copy(sizeof(float), buffers_.x.data(), buffers_.tokens.data());
  std::this_thread::sleep_for(100ms);
  const std::int64_t before = trace::now_ns();
  EXPECT_TRUE(done().empty()) << "nobody has waited";
  wait_for_device();
  const std::int64_t after = trace::now_ns();
  std::this_thread::sleep_for(100ms);
  const std::vector<trace::Event> events = done();

  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(name_of(events[0]), "fill");
  EXPECT_EQ(name_of(events[1]), "copy to host");
  EXPECT_EQ(name_of(events[2]), "fill");
  EXPECT_EQ(events[0].kind, static_cast<std::uint16_t>(trace::Kind::device_kernel));
  EXPECT_EQ(events[1].kind, static_cast<std::uint16_t>(trace::Kind::device_copy));
  EXPECT_EQ(events[1].bytes, sizeof(float));
  EXPECT_EQ(events[0].queue, 1);
  EXPECT_EQ(events[1].queue, 1);
  EXPECT_EQ(events[2].queue, 2);
  EXPECT_LE(end_of(events[0]), events[1].begin_ns);
  for (const trace::Event& event : events) {
    EXPECT_EQ(event.step, 7);
    EXPECT_GE(event.begin_ns, before - tolerance_ns);
    EXPECT_LE(end_of(event), after + tolerance_ns);
    EXPECT_GE(event.duration_ns, 0);
  }
}

TEST_F(Timing, WhatIsBeyondTheMemoryIsCounted) {
  const std::uint64_t before = untimed_spans();
  for (int i = 0; i < 11; ++i) fill(i % 2 == 0 ? Queue::compute : Queue::reduce, 1.0F);
  EXPECT_EQ(untimed_spans(), before + 11 - most_spans);
  wait_for_device();
  EXPECT_EQ(done().size(), most_spans);
  for (std::size_t i = 0; i < most_spans; ++i) fill(Queue::compute, 1.0F);  // they can be used again
  wait_for_device();
  EXPECT_EQ(done().size(), most_spans);
  EXPECT_EQ(untimed_spans(), before + 11 - most_spans);
}

TEST_F(Timing, OfSpansWithinAnotherOnItsQueueTheOuterOneCounts) {
  {
    const Timed product("product");
    fill(Queue::compute, 1.0F);
    fill(Queue::gather, 1.0F);  // beside it
    fill(Queue::compute, 2.0F);
  }
  fill(Queue::compute, 3.0F);
  wait_for_device();
  const std::vector<trace::Event> events = done();
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(name_of(events[0]), "product");
  EXPECT_EQ(name_of(events[1]), "fill");
  EXPECT_EQ(events[1].queue, 1);
  EXPECT_EQ(events[2].queue, 2);
  EXPECT_LE(end_of(events[0]), events[1].begin_ns);
}

TEST_F(Timing, ALevelRecordsWhatBelongsToIt) {
  trace::start(trace::Level::comm, 100);
  fill(Queue::compute, 1.0F);
  {
    const OnQueue there(Queue::gather);
    const Timed gather("all_gather", Work::collective);
    kernels::copy_bytes(64, buffers_.x.data(), buffers_.y.data());
  }
  wait_for_device();
  std::vector<trace::Event> events = done();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(name_of(events[0]), "all_gather");
  EXPECT_EQ(events[0].kind, static_cast<std::uint16_t>(trace::Kind::device_collective));
  EXPECT_EQ(events[0].queue, 2);
  trace::start(trace::Level::steps, 100);
  { const Timed gather("all_gather", Work::collective); }
  EXPECT_TRUE(done().empty());
}

TEST_F(Timing, WaitsForNothing) {
  fill(Queue::compute, 1.0F);
  const std::uint64_t before = waits();
  EXPECT_TRUE(done().empty());
  EXPECT_EQ(waits(), before);
  EXPECT_TRUE(simulated::pending());
}

TEST_F(Timing, WorkThatIsForgottenHasEnded) {
  fill(Queue::compute, 1.0F);
  simulated::drop();
  EXPECT_EQ(done().size(), 1U);
}

TEST(ClockMap, FollowsTheClocksFromReadingToReading) {
  ClockMap clocks;
  clocks.add({1'000'000, 50});
  EXPECT_EQ(clocks.host_ns(1'000'300), 350) << "equally fast until more is known";
  clocks.add({1'002'000, 1050});  // the device's clock is twice as fast
  EXPECT_EQ(clocks.host_ns(1'000'000), 50);
  EXPECT_EQ(clocks.host_ns(1'001'000), 550);
  EXPECT_EQ(clocks.host_ns(1'002'000), 1050);
  clocks.add({1'003'000, 2050});  // now they are equally fast
  EXPECT_EQ(clocks.host_ns(1'002'500), 1550);
  EXPECT_EQ(clocks.host_ns(1'001'000), 550) << "a span that began before the last but one reading";
  clocks.add({1'003'000, 2060});
  EXPECT_EQ(clocks.host_ns(1'002'500), 1550) << "no later than the one before: left out";
  clocks.add({1'004'000, 4050});  // half as fast
  EXPECT_EQ(clocks.host_ns(1'003'500), 3050);
  EXPECT_EQ(clocks.host_ns(1'002'500), 1550);
  std::int64_t last = clocks.host_ns(999'999);
  for (std::int64_t at = 1'000'000; at < 1'004'000; ++at) {
    const std::int64_t mapped = clocks.host_ns(at);
    ASSERT_GE(mapped, last) << at;
    last = mapped;
  }
}

}  // namespace of_timing_test
}  // namespace shoal::device
