// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/trace.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace shoal::trace {
namespace of_trace_test {

class Trace : public testing::Test {
 protected:
  void TearDown() override {
    stop();
    drain();
    set_step(0);
    set_micro(-1);
    set_unit(-1);
  }
};

std::string name_of(const Event& event) { return names().at(static_cast<std::size_t>(event.name)); }

TEST_F(Trace, LevelOffRecordsNothing) {
  start(Level::off, 10);
  { const Region region(Level::steps, Kind::step, "step"); }
  counter("memory/rss", 1);
  EXPECT_FALSE(on(Level::steps));
  EXPECT_FALSE(on(Level::off)) << "no event has level off";
  EXPECT_EQ(pending(), 0U);
}

TEST_F(Trace, ALevelIncludesTheLowerOnes) {
  start(Level::comm, 10);
  EXPECT_TRUE(on(Level::steps));
  EXPECT_TRUE(on(Level::comm));
  EXPECT_FALSE(on(Level::kernels));
  { const Region region(Level::kernels, Kind::kernel, "gelu"); }
  EXPECT_EQ(pending(), 0U);
  { const Region region(Level::comm, Kind::collective, "all_gather", 4096); }
  const auto events = drain();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(name_of(events[0]), "all_gather");
  EXPECT_EQ(events[0].bytes, 4096U);
  EXPECT_EQ(events[0].kind, static_cast<std::uint16_t>(Kind::collective));
}

TEST_F(Trace, RegionsNestAndBelongToStepMicroBatchAndUnit) {
  start(Level::kernels, 10);
  set_step(7);
  set_micro(2);
  {
    const Region outer(Level::steps, Kind::phase, "forward");
    set_unit(3);
    const Region inner(Level::kernels, Kind::kernel, "layernorm");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const auto events = drain();
  ASSERT_EQ(events.size(), 2U);  // in the order in which they ended
  const Event &inner = events[0], &outer = events[1];
  EXPECT_EQ(name_of(inner), "layernorm");
  EXPECT_EQ(name_of(outer), "forward");
  EXPECT_EQ(inner.depth, 1);
  EXPECT_EQ(outer.depth, 0);
  EXPECT_EQ(inner.unit, 3);
  EXPECT_EQ(outer.unit, -1) << "the unit in which the region began";
  EXPECT_EQ(inner.step, 7);
  EXPECT_EQ(inner.micro, 2);
  EXPECT_GE(inner.duration_ns, 2'000'000);
  EXPECT_LE(outer.begin_ns, inner.begin_ns);
  EXPECT_GE(outer.begin_ns + outer.duration_ns, inner.begin_ns + inner.duration_ns);
}

TEST_F(Trace, AFullBufferDropsEventsAndCountsThem) {
  start(Level::steps, 3);
  for (std::uint64_t i = 0; i < 5; ++i) counter("memory/rss", i);
  EXPECT_EQ(pending(), 3U);
  EXPECT_EQ(dropped(), 2U);
  const auto events = drain();
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].bytes, 0U);
  EXPECT_EQ(events[2].bytes, 2U);
  counter("memory/rss", 9);
  EXPECT_EQ(drain().at(0).bytes, 9U) << "drain() makes space for new events";
  EXPECT_EQ(dropped(), 2U) << "all since start()";
  start(Level::steps, 3);
  EXPECT_EQ(dropped(), 0U);
}

TEST_F(Trace, NamesKeepTheirIndex) {
  const std::int32_t first = name_index("a name");
  const std::int32_t second = name_index("another name");
  EXPECT_NE(first, second);
  EXPECT_EQ(name_index("a name"), first);
  EXPECT_EQ(names().at(static_cast<std::size_t>(second)), "another name");
}

TEST_F(Trace, ARegionThatOutlivesTheTraceLeavesTheDepthRight) {
  start(Level::steps, 10);
  {
    const Region open(Level::steps, Kind::step, "step");
    stop();
  }
  start(Level::steps, 10);
  { const Region region(Level::steps, Kind::step, "step"); }
  EXPECT_EQ(drain().back().depth, 0);
}

TEST_F(Trace, AListenerHearsOfRecordedRegions) {
  static std::string heard;
  heard.clear();
  set_region_listener({[](const char* name) { heard += std::string("(") + name; }, [] { heard += ")"; }});
  start(Level::steps, 10);
  {
    const Region outer(Level::steps, Kind::step, "step");
    { const Region inner(Level::steps, Kind::phase, "forward"); }
    const Region below(Level::kernels, Kind::kernel, "gelu");
  }
  set_region_listener({});
  { const Region unheard(Level::steps, Kind::step, "step"); }
  EXPECT_EQ(heard, "(step(forward))");
}

TEST_F(Trace, TimeStartsAtZero) {
  set_zero();
  const std::int64_t now = now_ns();
  EXPECT_GE(now, 0);
  EXPECT_LT(now, 1'000'000'000);
  EXPECT_GE(now_ns(), now);
}

}  // namespace of_trace_test
}  // namespace shoal::trace
