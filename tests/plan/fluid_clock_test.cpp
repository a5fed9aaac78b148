// SPDX-License-Identifier: Apache-2.0
// Activities that share resources, compared with times that can be computed by hand.
#include "plan/pipeline/fluid_clock.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace shoal::plan {
namespace of_fluid_clock_test {

using Resources = std::vector<FluidClock::Resource>;

/// Begins at a moment, takes these seconds alone, and writes down when it ends.
Process activity(FluidClock& clock, const Resources& used, double begin, double seconds, double& end,
                 double most = FluidClock::unlimited) {
  co_await clock.delay(begin);
  co_await clock.use(used, seconds, most);
  end = clock.now_s();
}

TEST(FluidClock, DividesALinkWhileMessagesOverlap) {
  FluidClock clock;
  const Resources link = {clock.add(1)};
  double first = 0, second = 0, later = 0;
  activity(clock, link, 0, 4, first);
  activity(clock, link, 2, 4, second);
  activity(clock, link, 10, 4, later);
  clock.run();
  EXPECT_DOUBLE_EQ(first, 6) << "2 s alone, then 2 s of work at half the rate";
  EXPECT_DOUBLE_EQ(second, 8) << "2 s of work at half the rate, then 2 s alone";
  EXPECT_DOUBLE_EQ(later, 14) << "nothing is left to share the link with";
}

/// Three messages leave a node, and one of them goes to a node that also receives two others. It gets a third of the link
/// of that node, which is the fuller one; what it leaves of the first node's link, the others get.
TEST(FluidClock, IsMaxMinFair) {
  FluidClock clock;
  const FluidClock::Resource out = clock.add(1), in = clock.add(0.6);
  const Resources both = {out, in}, only_out = {out}, only_in = {in};
  double shared = 0;
  std::array<double, 2> outs{}, ins{};
  activity(clock, both, 0, 0.2, shared);
  for (double& end : outs) activity(clock, only_out, 0, 0.4, end);
  for (double& end : ins) activity(clock, only_in, 0, 0.2, end);
  clock.run();
  EXPECT_NEAR(shared, 1, 1e-12);
  for (const double end : outs) EXPECT_NEAR(end, 1, 1e-12);
  for (const double end : ins) EXPECT_NEAR(end, 1, 1e-12);
}

TEST(FluidClock, NoActivityIsFasterThanItCanBe) {
  FluidClock clock;
  const Resources processors = {clock.add(4)}, none = {};
  double slow = 0, fast = 0, alone = 0;
  activity(clock, processors, 0, 2, slow, 1);
  activity(clock, processors, 0, 6, fast, 8);
  activity(clock, none, 0, 6, alone, 2);
  clock.run();
  EXPECT_DOUBLE_EQ(slow, 2);
  EXPECT_DOUBLE_EQ(fast, 2) << "what the other one leaves: 3 of 4";
  EXPECT_DOUBLE_EQ(alone, 3);
}

/// A bucket of two seconds: one second is left after the first activity, and another second comes while the link is not
/// used.
TEST(FluidClock, ALinkGivesItsCreditAtOnce) {
  FluidClock clock;
  const Resources link = {clock.add(1, 2)};
  double first = 0, second = 0, third = 0;
  activity(clock, link, 0, 1, first);
  activity(clock, link, 1, 5, second);
  activity(clock, link, 4, 1, third);
  clock.run();
  EXPECT_NEAR(first, 0, 1e-5);
  EXPECT_NEAR(second, 1 + 3, 1e-5);
  EXPECT_NEAR(third, 5, 1e-5) << "no time to gain credit";
}

Process writer(FluidClock& clock, Counter& written, Counter& read, std::string& log) {
  for (std::size_t i = 0; i < 3; ++i) {
    co_await clock.delay(1);
    co_await read.reaches(i);
    log += "w";
    written.add();
  }
}
Process reader(FluidClock& clock, Counter& written, Counter& read, std::string& log) {
  for (std::size_t i = 0; i < 3; ++i) {
    co_await written.reaches(i + 1);
    co_await clock.delay(2);
    log += "r";
    read.add();
  }
}

TEST(Counter, LetsProcessesWaitForEachOther) {
  FluidClock clock;
  Counter written(clock), read(clock);
  std::string log;
  reader(clock, written, read, log);
  writer(clock, written, read, log);
  clock.run();
  EXPECT_EQ(log, "wrwrwr");
  EXPECT_DOUBLE_EQ(clock.now_s(), 1 + 3 * 2) << "the writer's later seconds pass while the reader reads";
}

}  // namespace of_fluid_clock_test
}  // namespace shoal::plan
