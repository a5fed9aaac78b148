// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint/background.hpp"

#include <sys/resource.h>

#include <exception>
#include <utility>

#include "shoal/base/trace.hpp"

namespace shoal::io {

namespace {

/// Lowers the priority of the calling thread alone; on Linux each thread has its own. If it may not be lowered, the job
/// competes with the rank.
void lower_priority() {
  constexpr int niceness = 12;
  static_cast<void>(::setpriority(PRIO_PROCESS, 0, niceness));
}

}  // namespace

void Background::start(Job job) {
  require(done() && !thread_.joinable(), "a job was started while another one was running");
  stop_ = false;
  done_ = false;
  error_.reset();
  thread_ = std::thread([this, job = std::move(job)] {
    lower_priority();
    run(job);
  });
}

void Background::run(const Job& job) {
  begin_ns_ = trace::now_ns();
  try {
    job(stop_);
  } catch (const Error& error) {
    error_ = error;
  } catch (const std::exception& error) {
    error_ = Error(Exit::failed, Seen::here, error.what());
  }
  end_ns_ = trace::now_ns();
  done_.store(true, std::memory_order_release);
}

void Background::join() {
  if (thread_.joinable()) thread_.join();
}

void Background::end() {
  stop_ = true;
  join();
}

}  // namespace shoal::io
