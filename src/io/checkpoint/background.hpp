// SPDX-License-Identifier: Apache-2.0
// A job on a thread of its own, of low priority: the cores are for the threads that compute.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>

#include "shoal/base/error.hpp"

namespace shoal::io {

/// Runs one job at a time. If a rank has only one core and computes without pause, the job gets at most a fifteenth of that
/// core (Linux gives niceness 12 the weight 70, and niceness 0 the weight 1024), and all of it while the rank waits. The
/// lowest priority would give it a seventieth: a save would last many steps, and hardly end if other programs run. Jobs make
/// no MPI or HDF5 calls, since both libraries are used by the main thread only, and they record no trace events.
class Background {
 public:
  /// The job reads `stop` between two parts of its work, and returns early if it is set.
  using Job = std::function<void(const std::atomic<bool>& stop)>;

  Background() = default;
  ~Background() { end(); }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// The previous job must have ended and been joined.
  void start(Job job);
  /// Returns true if the job has returned or failed. Then error(), begin_ns() and end_ns() may be read.
  bool done() const { return done_.load(std::memory_order_acquire); }
  const std::optional<Error>& error() const { return error_; }
  std::int64_t begin_ns() const { return begin_ns_; }  ///< trace::now_ns()
  std::int64_t end_ns() const { return end_ns_; }
  /// Waits until the job has ended.
  void join();
  /// Sets `stop`, and waits until the job has ended.
  void end();

 private:
  void run(const Job& job);

  std::thread thread_;
  std::atomic<bool> stop_ = false, done_ = true;
  std::optional<Error> error_;
  std::int64_t begin_ns_ = 0, end_ns_ = 0;
};

}  // namespace shoal::io
