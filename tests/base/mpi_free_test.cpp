// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/mpi_free.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "shoal/base/pump.hpp"

namespace shoal {
namespace of_mpi_free_test {

using namespace std::chrono_literals;

bool another_thread_may_stand_in() {
  bool called = false;
  std::thread([&] { called = stand_in([] {}); }).join();
  return called;
}

TEST(AbsenceOfTheMainThread, AnotherMayStandInOnlyMeanwhile) {
  begin_mpi_free();
  EXPECT_FALSE(another_thread_may_stand_in());
  {
    const MpiFree whole;
    EXPECT_TRUE(main_thread_is_mpi_free());
    { const MpiFree nested; }
    EXPECT_TRUE(another_thread_may_stand_in());
  }
  EXPECT_FALSE(main_thread_is_mpi_free());
  EXPECT_FALSE(another_thread_may_stand_in());
  end_mpi_free();
}

TEST(AbsenceOfTheMainThread, IsUnknownBeforeBeginAbsences) {
  const MpiFree mpi_free;
  EXPECT_FALSE(another_thread_may_stand_in());
}

TEST(AbsenceOfTheMainThread, IsNotThatOfAnotherThread) {
  begin_mpi_free();
  std::thread([] {
    const MpiFree mpi_free;
    EXPECT_FALSE(main_thread_is_mpi_free());
  }).join();
  EXPECT_FALSE(another_thread_may_stand_in());
  end_mpi_free();
}

TEST(AbsenceOfTheMainThread, EndsAfterTheOtherThreadIsDone) {
  begin_mpi_free();
  std::atomic<bool> inside = false, done = false;
  std::optional<MpiFree> mpi_free(std::in_place);
  std::thread other([&] {
    EXPECT_TRUE(stand_in([&] {
      inside = true;
      std::this_thread::sleep_for(20ms);
      done = true;
    }));
  });
  while (!inside) std::this_thread::yield();
  mpi_free.reset();
  EXPECT_TRUE(done);
  other.join();
  end_mpi_free();
}

TEST(AbsentPump, BeatsForItsThreadButCallsNothing) {
  static int calls;
  calls = 0;
  set_pump([] { ++calls; });
  {
    const MpiFree mpi_free;
    pump();
  }
  EXPECT_EQ(calls, 0);
  pump();
  EXPECT_EQ(calls, 1);
  set_pump(nullptr);
  std::this_thread::sleep_for(20ms);
  const auto before = std::chrono::steady_clock::now();
  pump();
  const std::int64_t silence = heartbeat::silence_ns();
  EXPECT_LE(silence, std::chrono::nanoseconds(std::chrono::steady_clock::now() - before).count()) << "no beat since then";
}

}  // namespace of_mpi_free_test
}  // namespace shoal
