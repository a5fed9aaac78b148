// SPDX-License-Identifier: Apache-2.0
// Eight processes find the lock of a dead run at once. One of them holds it afterwards, whoever is killed or stopped on the
// way.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <random>
#include <thread>

#include "io/lock/lock_file.hpp"
#include "io/scratch.hpp"
#include "shoal/io/directory_lock.hpp"

namespace shoal::test {
namespace of_directory_lock_race_test {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr std::size_t contenders = 8;
constexpr double timeout_s = 0.05;
constexpr auto longer_than_the_timeout = 60ms;
constexpr auto limit = 20s;  // of a round

/// What the processes of a round tell each other, in memory that all of them see.
struct Board {
  std::atomic<std::size_t> ready{0};
  std::atomic<bool> begun{false}, over{false};
  std::array<std::atomic<bool>, contenders> holds{}, lost{};
};

class Processes {
 public:
  explicit Processes(const fs::path& directory) {
    void* const memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    board_ = new (memory) Board;
    for (std::size_t me = 0; me < contenders; ++me) {
      ids_[me] = ::fork();
      if (ids_[me] == 0) {
        contend(directory, me);
        ::_exit(0);
      }
    }
    while (board_->ready < contenders) std::this_thread::yield();
    board_->begun = true;
  }
  ~Processes() {
    end();
    ::munmap(board_, sizeof(Board));
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  void send(std::size_t process, int signal) { ::kill(ids_[process], signal); }
  void kill(std::size_t process) {
    if (ids_[process] <= 0) return;
    send(process, SIGKILL);
    ::waitpid(ids_[process], nullptr, 0);
    ids_[process] = -1;
    board_->holds[process] = false;
  }
  /// Lets all processes end. The holder releases the lock.
  void end() {
    board_->over = true;
    for (pid_t& process : ids_) {
      if (process > 0) ::waitpid(process, nullptr, 0);
      process = -1;
    }
  }
  /// The living processes that hold the lock as far as they know.
  std::size_t holders() const {
    return static_cast<std::size_t>(std::count(board_->holds.begin(), board_->holds.end(), true));
  }
  std::size_t losers() const { return static_cast<std::size_t>(std::count(board_->lost.begin(), board_->lost.end(), true)); }

 private:
  void contend(const fs::path& directory, std::size_t me) {
    io::DirectoryLock lock(directory, "output.dir = out", timeout_s, [](const std::string&) {});
    ++board_->ready;
    while (!board_->begun) std::this_thread::yield();
    while (!board_->over && !board_->holds[me]) {
      try {
        board_->holds[me] = lock.try_take();
      } catch (const Error&) {  // another one holds it, and may be killed
      }
      if (!board_->holds[me]) std::this_thread::sleep_for(1ms);
    }
    while (!board_->over) std::this_thread::sleep_for(1ms);
    board_->lost[me] = board_->holds[me] && !lock.why_lost(true).empty();
  }

  Board* board_ = nullptr;
  std::array<pid_t, contenders> ids_{};
};

class DirectoryLockRaceTest : public testing::Test {
 protected:
  /// The lock of a process of this machine that has ended: it is taken over without waiting.
  void write_stale() {
    io::LockHolder holder = io::holder_of_this_process(timeout_s);
    holder.process.started += 1;
    write_all(scratch_.path() / "shoal.lock", io::lock_text(holder));
  }

  /// disturb: called while the processes contend.
  template <typename Disturb>
  void run(int rounds, const Disturb& disturb) {
    for (int round = 0; round < rounds; ++round) {
      write_stale();
      Processes processes(scratch_.path());
      disturb(processes);
      const auto begin = std::chrono::steady_clock::now();
      while (processes.holders() == 0 && std::chrono::steady_clock::now() - begin < limit) std::this_thread::sleep_for(1ms);
      std::this_thread::sleep_for(5ms);  // for a second one, if there is one
      ASSERT_EQ(processes.holders(), 1U) << "round " << round;
      processes.end();
      ASSERT_EQ(processes.losers(), 0U) << "round " << round;
      ASSERT_FALSE(fs::exists(scratch_.path() / "shoal.lock")) << "round " << round;
    }
  }

  std::size_t any() { return random_() % contenders; }
  std::chrono::microseconds soon() { return std::chrono::microseconds(random_() % 2000); }

  Scratch scratch_;
  std::minstd_rand random_{7};
};

TEST_F(DirectoryLockRaceTest, OneOfEightTakesItOver) {
  run(100, [](Processes&) {});
}

TEST_F(DirectoryLockRaceTest, OneOfThoseThatAreLeftWhenSomeAreKilled) {
  run(100, [this](Processes& processes) {
    for (int times = 0; times < 4; ++times) {
      std::this_thread::sleep_for(soon());
      processes.kill(any());
    }
  });
}

TEST_F(DirectoryLockRaceTest, OneOfEightWhenSomeAreStoppedForAWhile) {
  run(40, [this](Processes& processes) {
    std::array<std::size_t, 3> stopped{};
    for (std::size_t& process : stopped) {
      std::this_thread::sleep_for(soon());
      process = any();
      processes.send(process, SIGSTOP);
    }
    std::this_thread::sleep_for(longer_than_the_timeout);
    for (const std::size_t process : stopped) processes.send(process, SIGCONT);
    std::this_thread::sleep_for(5ms);
  });
}

}  // namespace of_directory_lock_race_test
}  // namespace shoal::test
