// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <exception>
#include <utility>

#include "comm/operations/device_operations.hpp"
#include "comm/operations/open_operations.hpp"
#include "shoal/base/activity.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/output.hpp"
#include "shoal/comm/abort.hpp"
#include "shoal/comm/wait.hpp"

namespace shoal::comm {

namespace {

using Clock = std::chrono::steady_clock;

/// While an exception unwinds the stack, a request is waited for at most this long before its buffers are destroyed.
constexpr double unwinding_s = 1;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

struct LongWaits {
  double interval = 0;
  LongWait function;
} long_waits;

}  // namespace

void set_long_wait(double interval, LongWait function) { long_waits = {interval, std::move(function)}; }
double long_wait_interval() { return long_waits.interval; }
bool long_wait(const Operation& operation, double seconds) {
  if (long_waits.function == nullptr) return false;
  long_waits.function(operation, seconds);
  return true;
}

void Operation::after_what_precedes() const {
  const std::optional<device::Queue> own = queue();
  if (!own) return;
  device::Event started;
  started.record();
  const device::OnQueue kernels_go_to(*own);
  started.before_what_follows();  // once is enough, since the queue keeps its order
}

void Operation::before_what_follows() const {
  if (queue()) enqueued_.before_what_follows();
}

Request::Request(std::shared_ptr<Operation> operation) : operation_(std::move(operation)) {
  operation_->nested_ = OpenOperations::busy();
  operation_->after_what_precedes();
  const auto step = [this] { return operation_->nested_ ? operation_->step() : OpenOperations::begin(*operation_); };
  bool complete = step();
  while (!complete && operation_->whole_at_start()) complete = step();
  if (!complete) {
    if (!operation_->nested_) OpenOperations::add(operation_);
  } else if (!operation_->whole_at_start()) {
    operation_->before_what_follows();
    operation_.reset();
  }  // else all is enqueued, but only what the caller enqueues after wait() comes after it
}

Request& Request::operator=(Request&& other) noexcept {
  if (this != &other) {
    drop();
    operation_ = std::move(other.operation_);
  }
  return *this;
}

Request::~Request() { drop(); }

void Request::drop() noexcept {
  if (operation_ == nullptr) return;
  try {
    if (std::uncaught_exceptions() == 0) {
      wait();
      return;
    }
    const Clock::time_point begin = Clock::now();
    Backoff backoff;
    while (!test()) {
      if (seconds_since(begin) > unwinding_s) {
        OpenOperations::abandon(operation_);
        return;
      }
      backoff.pause();
    }
  } catch (const std::exception& error) {  // an MPI error: a destructor must not throw
    output::complain(text("shoal: ", error.what(), "\n"));
    abort_all(static_cast<int>(Exit::failed));
  }
}

bool Request::test() {
  if (operation_ == nullptr) return true;
  move_on();
  if (!operation_->done_) return false;
  operation_->before_what_follows();
  operation_.reset();
  return true;
}

void Request::move_on() const {
  if (operation_->nested_) {
    OpenOperations::advance_nested(*operation_);
  } else {
    progress();
  }
}

void Request::wait() {
  if (operation_ == nullptr) return;
  if (!operation_->done_) {
    require(!OpenOperations::busy(), "an operation waits for another: ", operation_->describe());
    listen_if_called();
    activity::begin_wait({activity::name_from(operation_->in_words()), operation_->number_, operation_->trace_step_,
                          operation_->unit_, operation_->group_});
    const std::int64_t begin_ns = trace::now_ns();
    Clock::time_point begin{}, reported{};
    Backoff backoff;
    for (move_on(); !operation_->done_; move_on()) {
      backoff.pause();
      if (long_waits.function == nullptr || !backoff.yields()) continue;
      const Clock::time_point now = Clock::now();
      if (begin == Clock::time_point{}) begin = reported = now;
      if (std::chrono::duration<double>(now - reported).count() < long_waits.interval) continue;
      reported = now;
      long_waits.function(*operation_, std::chrono::duration<double>(now - begin).count());
    }
    activity::end_wait();
    if (trace::on(trace::Level::comm)) {
      record_until_now(trace::Kind::wait, operation_->name(), begin_ns, operation_->unit_, operation_->group_, 0);
    }
  }
  operation_->before_what_follows();
  operation_.reset();
}

void Request::trace_as(std::string_view name, std::int64_t begin_ns, std::int16_t group, std::uint64_t bytes) {
  if (operation_ == nullptr || operation_->done_) {
    record_until_now(trace::Kind::collective, name, begin_ns, trace::unit(), group, bytes);
    return;
  }
  operation_->traced_ = true;
  operation_->begin_ns_ = begin_ns;
  operation_->unit_ = trace::unit();
  operation_->group_ = group;
  operation_->bytes_ = bytes;
}

void Request::label(std::int16_t group, std::uint64_t number) {
  if (operation_ == nullptr) return;
  operation_->group_ = group;
  operation_->number_ = number;
  operation_->unit_ = trace::unit();
  operation_->trace_step_ = trace::step();
}

Request Communicator::start(std::shared_ptr<Operation> operation, const Traffic& /*sent*/) {
  return Request(std::move(operation));
}

}  // namespace shoal::comm
