// SPDX-License-Identifier: Apache-2.0
#include "zero/gather_plan.hpp"

#include <gtest/gtest.h>

#include <string>

#include "shoal/base/error.hpp"

namespace shoal::zero {
namespace of_gather_plan_test {

constexpr std::size_t mb = 1'000'000;

/// A model of an embedding (0), three blocks and a head (4) that uses the embedding too: forward and backward.
const UseOrder use_order = {{0}, {1}, {2}, {3}, {4, 0}, {3}, {2}, {1}};
const std::vector<std::string> names = {"embedding", "h.0", "h.1", "h.2", "head"};
const std::vector<std::size_t> sizes = {4 * mb, mb, mb, mb, mb};

ZeroOptions options(std::size_t prefetch, double max_live = 0, bool reshard = true) {
  ZeroOptions result;
  result.stage = 3;
  result.prefetch_units = prefetch;
  result.max_live_mb = max_live;
  result.reshard_after_forward = reshard;
  return result;
}

GatherPlan plan(const ZeroOptions& zero) { return plan_gathers(use_order, sizes, names, zero); }

/// "unit:start<first-last" of every lifetime.
std::string shape(const GatherPlan& plan) {
  std::string text;
  for (const GatherLifetime& gather : plan.gather_lifetimes) {
    text += (text.empty() ? "" : " ") + std::to_string(gather.unit) + ":" + std::to_string(gather.start) + "<" +
            std::to_string(gather.first) + "-" + std::to_string(gather.last);
  }
  return text;
}

TEST(GatherPlan, WithoutPrefetchAUnitIsGatheredAtItsVisit) {
  EXPECT_EQ(shape(plan(options(0))), "0:0<0-0 1:1<1-1 2:2<2-2 3:3<3-3 4:4<4-4 0:4<4-4 3:5<5-5 2:6<6-6 1:7<7-7");
}

TEST(GatherPlan, PrefetchStartsTheNextUnitWhileOneRuns) {
  // Block 3 is not released between forward and backward: its second gather would start with the use after its first one.
  // So it is the unit that is gathered ahead in that use, and block 2 is not gathered then.
  EXPECT_EQ(shape(plan(options(1))), "0:0<0-0 1:0<1-1 2:1<2-2 3:2<3-5 4:3<4-4 0:4<4-4 2:5<6-6 1:6<7-7");
  EXPECT_EQ(shape(plan(options(2))), "0:0<0-0 1:0<1-1 2:0<2-2 3:1<3-5 4:2<4-4 0:3<4-4 2:4<6-6 1:5<7-7");
}

/// "+unit" for each start and "-unit" for each wait, by use.
std::string calls(const GatherPlan& plan) {
  std::string text;
  for (const Calls& of_use : plan.calls) {
    if (!text.empty()) text += " |";
    for (const Call& call : of_use) {
      text += std::string(call.kind == Call::Kind::start ? " +" : " -") +
              std::to_string(plan.gather_lifetimes[call.message].unit);
    }
  }
  return text;
}

TEST(GatherPlan, AUseStartsItsGathersAndThenWaitsForItsUnits) {
  EXPECT_EQ(calls(plan(options(0))), " +0 -0 | +1 -1 | +2 -2 | +3 -3 | +4 +0 -4 -0 | +3 -3 | +2 -2 | +1 -1");
  EXPECT_EQ(calls(plan(options(1))), " +0 +1 -0 | +2 -1 | +3 -2 | +4 -3 | +0 -4 -0 | +2 | +1 -2 | -1");
  EXPECT_EQ(calls(plan(options(2))), " +0 +1 -0 +2 | -1 +3 | -2 +4 | -3 +0 | -4 +2 -0 | +1 | -2 | -1")
      << "with two gathers in flight, a third one waits for the oldest";
}

TEST(GatherPlan, EveryGatherIsAwaitedBeforeItsFirstUseAndAtMostTwoAreInFlight) {
  for (const std::size_t prefetch : {0U, 1U, 2U, 5U}) {
    for (const bool reshard : {true, false}) {
      const GatherPlan all = plan(options(prefetch, 0, reshard));
      std::size_t started = 0, ended = 0;
      for (std::size_t use = 0; use < all.calls.size(); ++use) {
        for (const Call& call : all.calls[use]) {
          EXPECT_EQ(call.message, call.kind == Call::Kind::start ? started++ : ended++);
          EXPECT_LE(started - ended, 2U);
        }
        for (std::size_t k = 0; k < all.gather_lifetimes.size(); ++k) {
          EXPECT_TRUE(all.gather_lifetimes[k].first > use || k < ended) << "use " << use;
        }
      }
      EXPECT_EQ(ended, all.gather_lifetimes.size());
    }
  }
}

TEST(GatherPlan, AUnitKeptAfterForwardIsGatheredOnce) {
  EXPECT_EQ(shape(plan(options(0, 0, false))), "0:0<0-4 1:1<1-7 2:2<2-6 3:3<3-5 4:4<4-4");
}

TEST(GatherPlan, WholeUnitsAreNotGathered) {
  EXPECT_EQ(shape(plan_gathers(use_order, {0, mb, 0, mb, 0}, names, options(0))), "1:1<1-1 3:3<3-3 3:5<5-5 1:7<7-7");
}

TEST(GatherPlan, MemoryIsWhatIsLiveTogether) {
  const GatherPlan alone = plan(options(0));
  EXPECT_LT(alone.bytes, 5 * mb + 1024);  // head and embedding, which are used together
  EXPECT_LT(plan(options(0, 0, false)).bytes, 8 * mb + 1024);
  EXPECT_GE(plan(options(0, 0, false)).bytes, 8 * mb);
}

TEST(GatherPlan, NothingIsGatheredAheadBeyondTheLimit) {
  for (const double limit : {5.0, 5.5, 6.0, 7.0}) {
    const GatherPlan limited = plan(options(3, limit));
    std::size_t most = 0;
    for (std::size_t v = 0; v < use_order.size(); ++v) {
      std::size_t live = 0;
      for (const GatherLifetime& gather : limited.gather_lifetimes) {
        if (gather.start <= v && v <= gather.last) live += sizes[static_cast<std::size_t>(gather.unit)];
      }
      most = std::max(most, live);
    }
    EXPECT_LE(static_cast<double>(most), limit * 1e6) << limit;
    EXPECT_GE(most, 5 * mb);
  }
}

TEST(GatherPlan, ALimitBelowOneVisitIsRefusedByTheUnitsNames) {
  try {
    plan(options(0, 4.5));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bad_input);
    const std::string message = error.what();
    EXPECT_NE(message.find("zero.max_live_mb = 4.5"), std::string::npos) << message;
    EXPECT_NE(message.find("head, embedding"), std::string::npos) << message;
    EXPECT_NE(message.find("5 MB"), std::string::npos) << message;
  }
}

}  // namespace of_gather_plan_test
}  // namespace shoal::zero
