// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/absence.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "shoal/base/pump.hpp"

namespace shoal {
namespace {

using namespace std::chrono_literals;

bool another_thread_may_stand_in() {
  bool called = false;
  std::thread([&] { called = stand_in([] {}); }).join();
  return called;
}

TEST(AbsenceOfTheMainThread, AnotherMayStandInOnlyMeanwhile) {
  begin_absences();
  EXPECT_FALSE(another_thread_may_stand_in());
  {
    const Absence whole;
    EXPECT_TRUE(main_thread_absent());
    { const Absence nested; }
    EXPECT_TRUE(another_thread_may_stand_in());
  }
  EXPECT_FALSE(main_thread_absent());
  EXPECT_FALSE(another_thread_may_stand_in());
  end_absences();
}

TEST(AbsenceOfTheMainThread, IsUnknownBeforeBeginAbsences) {
  const Absence absence;
  EXPECT_FALSE(another_thread_may_stand_in());
}

TEST(AbsenceOfTheMainThread, IsNotThatOfAnotherThread) {
  begin_absences();
  std::thread([] {
    const Absence absence;
    EXPECT_FALSE(main_thread_absent());
  }).join();
  EXPECT_FALSE(another_thread_may_stand_in());
  end_absences();
}

TEST(AbsenceOfTheMainThread, EndsAfterTheOtherThreadIsDone) {
  begin_absences();
  std::atomic<bool> inside = false, done = false;
  std::optional<Absence> absence(std::in_place);
  std::thread other([&] {
    EXPECT_TRUE(stand_in([&] {
      inside = true;
      std::this_thread::sleep_for(20ms);
      done = true;
    }));
  });
  while (!inside) std::this_thread::yield();
  absence.reset();
  EXPECT_TRUE(done);
  other.join();
  end_absences();
}

TEST(Pump, OfAnAbsentThreadBeatsButCallsNothing) {
  static int calls;
  calls = 0;
  set_pump([] { ++calls; });
  {
    const Absence absence;
    pump();
  }
  EXPECT_EQ(calls, 0);
  pump();
  EXPECT_EQ(calls, 1);
  set_pump(nullptr);
  std::this_thread::sleep_for(20ms);
  pump();
  EXPECT_LT(heartbeat::silence_ns(), std::chrono::nanoseconds(20ms).count());
}

}  // namespace
}  // namespace shoal
