// SPDX-License-Identifier: Apache-2.0
// A job in a thread of its own, which leaves the cores to those that compute.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>

#include "shoal/base/error.hpp"

namespace shoal::io {

/// One job at a time. The thread's priority is low: where a rank has but one core and computes without pause, the job gets
/// at most a fifteenth of it (Linux weighs niceness 12 with 70, 0 with 1024), and all of it while the rank waits. At the
/// lowest priority, a seventieth, a save would outlast many steps, and hardly end beside other programs. Jobs make no MPI
/// and no HDF5 calls (both belong to the main thread) and record no events.
class Background {
 public:
  /// The job looks at `stop` between two parts of its work, and returns early when it is set.
  using Job = std::function<void(const std::atomic<bool>& stop)>;

  Background() = default;
  ~Background() { end(); }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// The job before has ended.
  void start(Job job);
  /// Whether the job has returned, or failed. After that error(), begin_ns() and end_ns() may be read.
  bool done() const { return done_.load(std::memory_order_acquire); }
  const std::optional<Error>& error() const { return error_; }
  std::int64_t begin_ns() const { return begin_ns_; }  ///< trace::now_ns()
  std::int64_t end_ns() const { return end_ns_; }
  /// Waits for it.
  void join();
  /// Tells it to stop, and waits.
  void end();

 private:
  void run(const Job& job);

  std::thread thread_;
  std::atomic<bool> stop_ = false, done_ = true;
  std::optional<Error> error_;
  std::int64_t begin_ns_ = 0, end_ns_ = 0;
};

}  // namespace shoal::io
