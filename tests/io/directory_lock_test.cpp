// SPDX-License-Identifier: Apache-2.0
// A directory has one writer: which run is refused, which waits, which takes over, and how a holder learns of the loss.
#include "shoal/io/directory_lock.hpp"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "io/lock/lock_file.hpp"
#include "io/scratch.hpp"

namespace shoal::test {
namespace of_directory_lock_test {

namespace fs = std::filesystem;
using io::DirectoryLock;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class DirectoryLockTest : public testing::Test {
 protected:
  std::unique_ptr<DirectoryLock> lock(double timeout_s = 60) {
    return std::make_unique<DirectoryLock>(scratch_.path(), "output.dir = out", timeout_s,
                                           [this](const std::string& line) { notes_.push_back(line); });
  }

  /// Tries for `seconds` seconds. Returns true if the lock was taken; errors are thrown.
  static bool taken(DirectoryLock& lock, double seconds, double pause_s = 0.01) {
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds) {
      if (lock.try_take()) return true;
      std::this_thread::sleep_for(std::chrono::duration<double>(pause_s));
    }
    return false;
  }

  /// Writes the lock of a run on another machine, touched `seconds_ago` seconds ago.
  void write_foreign(double timeout_s, double seconds_ago, const std::string& token = "t0ken") {
    io::LockHolder holder = io::holder_of_this_process(timeout_s);
    holder.process.machine += 1;
    holder.process.number = 4711;
    holder.host = "node17";
    holder.token = token;
    // Under another name first: nobody sees the name without a file, nor a file of another age.
    const fs::path written = scratch_.path() / "written";
    write_all(written, io::lock_text(holder));
    age(written, seconds_ago);
    fs::rename(written, file_);
  }

  /// Writes the lock of a process of this machine that has ended.
  static void write_ended(const fs::path& file, const std::string& token) {
    io::LockHolder holder = io::holder_of_this_process(60);
    holder.process.started += 1;
    holder.token = token;
    write_all(file, io::lock_text(holder));
  }

  static void age(const fs::path& file, double seconds_ago) {
    fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::milliseconds(std::lround(seconds_ago * 1e3)));
  }

  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(scratch_.path())) names.push_back(entry.path().filename().string());
    return names;
  }

  Scratch scratch_;
  fs::path file_ = scratch_.path() / "shoal.lock";
  std::vector<std::string> notes_;
};

TEST_F(DirectoryLockTest, OneHoldsItAndTheNextIsToldWho) {
  {
    const auto first = lock();
    ASSERT_TRUE(first->try_take());
    EXPECT_TRUE(first->try_take()) << "held already";
    EXPECT_THAT(error_of([&] { lock()->try_take(); }),
                testing::AllOf(HasSubstr("output.dir = out: in use by another run: host "),
                               HasSubstr(text("process ", getpid(), ", since 20"))));
    EXPECT_EQ(first->why_lost(true), "");
  }
  EXPECT_THAT(files(), IsEmpty());
  EXPECT_TRUE(lock()->try_take());
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(DirectoryLockTest, OfAProcessOfThisMachineThatDiedItIsTakenOverAtOnce) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    DirectoryLock held(scratch_.path(), "output.dir = out", 60, {});
    const bool took = held.try_take();
    ::kill(took ? getpid() : 0, SIGKILL);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  ASSERT_TRUE(fs::exists(file_));
  const auto next = lock();
  EXPECT_TRUE(next->try_take());
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_THAT(notes_[0], testing::AllOf(HasSubstr(text("process ", child)), HasSubstr("taking over the lock")));
  EXPECT_EQ(files().size(), 1U);
}

TEST_F(DirectoryLockTest, ItIsNeverSeenEmpty) {
  std::atomic<bool> stop{false};
  std::atomic<int> looks{0}, unreadable{0};
  std::thread looker([&] {
    while (!stop) {
      const auto found = io::find_lock(file_);
      if (found) ++(found->readable ? looks : unreadable);
    }
  });
  // On a busy machine the looker may get a processor late.
  for (int i = 0; i < 60 || (looks + unreadable == 0 && i < 100'000); ++i) ASSERT_TRUE(lock()->try_take());
  stop = true;
  looker.join();
  EXPECT_GT(looks, 0);
  EXPECT_EQ(unreadable, 0);
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(DirectoryLockTest, OfAnotherMachineItIsRefusedAsSoonAsItIsTouched) {
  write_foreign(2, 100);
  const auto next = lock();
  EXPECT_FALSE(next->try_take());
  age(file_, 99);
  EXPECT_THAT(error_of([&] { next->try_take(); }), HasSubstr("in use by another run: host node17, process 4711, since 20"));
  EXPECT_TRUE(fs::exists(file_));
}

TEST_F(DirectoryLockTest, OfAnotherMachineItIsWaitedForUntilItsTimeoutIsOver) {
  const auto begin = std::chrono::steady_clock::now();
  write_foreign(0.8, 0);
  const auto next = lock(60);
  ASSERT_TRUE(taken(*next, 10));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(700));
  ASSERT_EQ(notes_.size(), 2U);
  EXPECT_THAT(notes_[0], testing::AllOf(HasSubstr("host node17"), HasSubstr("waiting until this is 0.8 s")));
  EXPECT_THAT(notes_[1], HasSubstr("taking over the lock"));
}

TEST_F(DirectoryLockTest, OneLongDeadIsWatchedForThreeBeatsOnly) {
  write_foreign(1, 1000);  // touched every 1/8 s
  const auto next = lock(1);
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(taken(*next, 10));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(370));
  EXPECT_EQ(notes_.size(), 1U);
  EXPECT_EQ(files().size(), 1U);
}

TEST_F(DirectoryLockTest, OneThatItsWriterCouldNotFillIsTakenOver) {
  write_all(file_, "");
  age(file_, 1000);
  const auto next = lock(0.5);
  ASSERT_TRUE(taken(*next, 20));
  EXPECT_THAT(notes_.at(0), HasSubstr("is incomplete and does not name it"));
}

TEST_F(DirectoryLockTest, OfManyWaitersOneTakesItOver) {
  for (int round = 0; round < 25; ++round) {
    write_foreign(0.01, 1000, text("round", round));
    std::atomic<int> winners{0}, refused{0}, ready{0};
    std::vector<std::thread> waiters;
    for (int w = 0; w < 6; ++w) {
      waiters.emplace_back([&] {
        DirectoryLock mine(scratch_.path(), "output.dir = out", 5, [](const std::string&) {});
        mine.try_take();
        ++ready;
        while (ready < 6) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        try {
          if (taken(mine, 10, 0.001)) ++winners;
        } catch (const Error&) {
          ++refused;
        }
        while (winners + refused < 6) std::this_thread::yield();  // the winner holds it until all have tried
      });
    }
    for (std::thread& waiter : waiters) waiter.join();
    ASSERT_EQ(winners, 1) << "round " << round;
    ASSERT_THAT(files(), IsEmpty());
  }
}

TEST_F(DirectoryLockTest, ASuccessorThatDiedOnTheWayHasASuccessorItself) {
  write_foreign(0.1, 1000);
  write_ended(file_.string() + ".t0ken", "0ther");
  write_ended(file_.string() + ".0ther", "1ast");
  const auto next = lock();
  EXPECT_TRUE(next->try_take()) << "a process of this machine is looked up";
  EXPECT_THAT(files(), ElementsAre("shoal.lock"));
  EXPECT_EQ(next->why_lost(true), "");
}

TEST_F(DirectoryLockTest, ASuccessorThatCouldNotBeFilledHasItsTime) {
  write_foreign(0.1, 1000);
  const auto begin = std::chrono::steady_clock::now();
  write_all(file_.string() + ".t0ken", "");  // the kernel dates it up to a tick, 10 ms, too early
  const auto next = lock(0.5);
  ASSERT_TRUE(taken(*next, 10));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(490));
  EXPECT_THAT(files(), ElementsAre("shoal.lock"));
}

TEST_F(DirectoryLockTest, ASuccessorThatIsSlowIsLeftAlone) {
  write_foreign(0.1, 1000);
  const fs::path claim = file_.string() + ".t0ken";
  write_all(claim, io::lock_text(io::holder_of_this_process(0.1)));
  age(claim, 1000);
  const auto next = lock(0.1);
  EXPECT_THAT(error_of([&] { next->try_take(); }), HasSubstr("in use by another run: host "));
  EXPECT_THAT(files(), UnorderedElementsAre("shoal.lock", "shoal.lock.t0ken"));
}

TEST_F(DirectoryLockTest, NamesThatLeadInACircleEnd) {
  write_foreign(0.1, 1000);
  write_ended(file_.string() + ".t0ken", "t0ken");
  EXPECT_FALSE(lock()->try_take());
}

TEST_F(DirectoryLockTest, TheHolderHearsThatItLostIt) {
  {
    const auto held = lock(0.4);
    ASSERT_TRUE(held->try_take());
    fs::remove(file_);
    EXPECT_THAT(held->why_lost(true), HasSubstr("was removed while this run held it"));
  }
  {
    const auto held = lock(0.4);
    ASSERT_TRUE(held->try_take());
    write_foreign(60, 0);
    for (int i = 0; i < 100 && held->why_lost().empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_THAT(held->why_lost(), HasSubstr("taken over by another run (host node17, process 4711"));
  }
  EXPECT_TRUE(fs::exists(file_)) << "another's lock is left alone";
  fs::remove(file_);
  const auto held = lock(0.4);
  ASSERT_TRUE(held->try_take());
  fs::remove_all(scratch_.path());
  EXPECT_EQ(held->why_lost(true), "output.dir = out: was removed while this run wrote to it");
}

TEST_F(DirectoryLockTest, ItIsTouchedWhileItIsHeld) {
  const auto held = lock(0.4);
  ASSERT_TRUE(held->try_take());
  const auto now = fs::file_time_type::clock::now();
  age(file_, 1000);
  const auto touched = [&] { return fs::last_write_time(file_) > now - std::chrono::seconds(100); };
  for (int i = 0; i < 200 && !touched(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_TRUE(touched());
}

TEST_F(DirectoryLockTest, WhatIsNoLockFileIsLeftAlone) {
  write_all(file_, "my notes about locks\n");
  EXPECT_THAT(error_of([&] { lock()->try_take(); }), HasSubstr("is not a lock file of this program"));
  EXPECT_EQ(read_all(file_), "my notes about locks\n");
  fs::remove(file_);
  fs::create_symlink(scratch_.path() / "target", file_);
  EXPECT_THAT(error_of([&] { lock()->try_take(); }), HasSubstr("is not a lock file"));
  EXPECT_FALSE(fs::exists(scratch_.path() / "target"));
  fs::remove(file_);
  fs::create_directory(file_);
  EXPECT_THAT(error_of([&] { lock()->try_take(); }), HasSubstr("is not a lock file"));
}

TEST_F(DirectoryLockTest, ADirectoryThatCannotBeWrittenIsNamed) {
  DirectoryLock nowhere(scratch_.path() / "absent", "checkpoint.dir = c", 60, {});
  EXPECT_THAT(error_of([&] { nowhere.try_take(); }), HasSubstr("checkpoint.dir = c: not writable: No such file"));
}

}  // namespace of_directory_lock_test
}  // namespace shoal::test
