// SPDX-License-Identifier: Apache-2.0
// Requests by threads that wait for the disk: where the system refuses io_uring, as containers often do.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "io/tiers/disk_queue.hpp"
#include "io/tiers/open_requests.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/quiet_pump.hpp"

namespace shoal::io {

namespace {

class ThreadQueue final : public DiskQueue {
 public:
  ThreadQueue(int file, std::size_t depth) : file_(file), depth_(depth) {
    constexpr std::size_t requests_of_a_thread = 4;
    const std::size_t count = (depth + requests_of_a_thread - 1) / requests_of_a_thread;
    for (std::size_t i = 0; i < count; ++i) threads_.emplace_back([this] { work(); });
  }
  ~ThreadQueue() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    more_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  DiskAccess access() const override { return DiskAccess::threads; }

  std::uint64_t start(const DiskRequest& request) override {
    std::unique_lock lock(mutex_);
    wait(lock, [&] { return requests_.size() < depth_; });
    const std::uint64_t number = requests_.add(request);
    waiting_.push_back(number);
    more_.notify_one();
    return number;
  }

  void finish(std::uint64_t number) override {
    std::unique_lock lock(mutex_);
    wait(lock, [&] { return !requests_.any_up_to(number); });
    requests_.require_no_problem();
  }

 private:
  template <typename Reached>
  void wait(std::unique_lock<std::mutex>& lock, const Reached& reached) {
    std::uint64_t seen = ended_;
    while (!reached()) {
      done_.wait_for(lock, std::chrono::milliseconds(1));
      if (ended_ != seen) heartbeat::beat();
      seen = ended_;
      lock.unlock();
      quiet_pump();
      lock.lock();
    }
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      more_.wait(lock, [&] { return ends_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const std::uint64_t number = waiting_.front();
      waiting_.pop_front();
      while (true) {
        const DiskRequest request = requests_.at(number);
        lock.unlock();
        const std::int64_t result = transfer(request);
        lock.lock();
        if (!requests_.advance(number, result)) break;
      }
      ++ended_;
      done_.notify_all();
    }
  }

  std::int64_t transfer(const DiskRequest& request) const {
    const auto offset = static_cast<off_t>(request.offset);
    const ssize_t done = request.writes ? ::pwrite(file_, request.memory.data(), request.memory.size(), offset)
                                        : ::pread(file_, request.memory.data(), request.memory.size(), offset);
    return done < 0 ? -static_cast<std::int64_t>(errno) : done;
  }

  int file_;
  std::size_t depth_;
  std::mutex mutex_;
  std::condition_variable more_, done_;
  OpenRequests requests_;
  std::deque<std::uint64_t> waiting_;
  std::uint64_t ended_ = 0;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<DiskQueue> thread_queue(int file, std::size_t depth) { return std::make_unique<ThreadQueue>(file, depth); }

std::string described(const DiskRequest& request) {
  return text(request.writes ? "a write" : "a read", " of ", request.memory.size(), " bytes at byte ", request.offset);
}

}  // namespace shoal::io
