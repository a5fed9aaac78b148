// SPDX-License-Identifier: Apache-2.0
// The operations in flight on this rank. There is one list for all groups, since a wait for one operation should advance all
// of them. An operation that is started within another one's advance() is tested by that one only: the library advances all
// its messages whichever of them is tested, and each test costs a system call or more.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <utility>
#include <vector>

#include "shoal/base/error.hpp"
#include "shoal/base/pump.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/comm/communicator.hpp"
#include "shoal/comm/wait.hpp"
#include "shoal/comm/world.hpp"

namespace shoal::comm {

namespace {

using Clock = std::chrono::steady_clock;

/// progress() continues as long as operations complete (a tree then sends its next messages), but starts no new pass after
/// this time, so that the caller's kernels continue. The last step of an operation may add some milliseconds.
constexpr std::chrono::milliseconds longest_progress(5);
/// While an exception unwinds the stack, a request is waited for at most this long before its buffers are destroyed.
constexpr double unwinding_s = 1;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

struct LongWaits {
  double interval = 0;
  LongWait function;
} long_waits;

struct Listener {
  std::function<void()> function;
  std::atomic<bool> called = false;
} listener;

void listen_if_called() {
  if (listener.called.load(std::memory_order_relaxed) && listener.called.exchange(false) && listener.function != nullptr) {
    listener.function();
  }
}

/// Called by pump().
void move_at_pump() {
  listen_if_called();
  progress();
}

void record(trace::Kind kind, std::string_view name, std::int64_t begin_ns, std::int16_t unit, std::int16_t group,
            std::uint64_t bytes) {
  trace::Event event;
  event.begin_ns = begin_ns;
  event.duration_ns = trace::now_ns() - begin_ns;
  event.bytes = bytes;
  event.name = trace::name_index(name);
  event.step = trace::step();
  event.unit = unit;
  event.kind = static_cast<std::uint16_t>(kind);
  event.group = group;
  event.depth = 1;  // never an outermost event: waits are within a phase, and collectives overlap with other events
  trace::record(event);
}

}  // namespace

class OpenOperations {
 public:
  static void add(const std::shared_ptr<Operation>& operation) {
    open().push_back(operation);
    set_pump(move_at_pump);
  }
  /// The first step of an operation. Returns true if it is complete.
  static bool begin(Operation& operation) {
    const Pass pass;
    return operation.step();
  }
  /// A step of a sub-operation. The operation that started it acts on its completion.
  static void advance_nested(Operation& nested) {
    if (nested.step()) completed_ = true;
  }
  static bool none() { return open().empty(); }
  static bool busy() { return advancing_; }

  /// One step of each operation, also of those that are added during the pass. Returns true if any operation or
  /// sub-operation has completed.
  static bool advance_all() {
    const Pass pass;
    completed_ = false;
    for (std::size_t i = 0; i < open().size(); ++i) {  // NOLINT(modernize-loop-convert): the list may grow and move
      const std::shared_ptr<Operation> operation = open()[i];
      if (operation->step()) completed_ = true;
    }
    return completed_;
  }
  /// Gives up an operation: it is not advanced any more, but stays alive, since MPI may still write to its members.
  static void abandon(const std::shared_ptr<Operation>& operation) {
    static std::vector<std::shared_ptr<Operation>> abandoned;
    abandoned.push_back(operation);
    std::erase(open(), operation);
  }

 private:
  /// Kernels within an operation's step also call pump(), which must not advance the operation again.
  struct Pass {
    Pass() { advancing_ = true; }
    ~Pass() {
      advancing_ = false;
      std::erase_if(open(), [](const auto& operation) { return operation->done_; });
      if (open().empty() && listener.function == nullptr) set_pump(nullptr);
    }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
  };

  static std::vector<std::shared_ptr<Operation>>& open() {
    static std::vector<std::shared_ptr<Operation>> operations;
    return operations;
  }
  static inline bool advancing_ = false, completed_ = false;
};

bool Operation::step() {
  if (done_) return false;
  try {
    done_ = advance();
  } catch (...) {
    done_ = true;  // failed: it must not be advanced again while the exception ends the run
    throw;
  }
  if (done_ && traced_) record(trace::Kind::collective, name(), begin_ns_, unit_, group_, bytes_);
  return done_;
}

void progress() {
  if (OpenOperations::none() || OpenOperations::busy()) return;
  const Clock::time_point begin = Clock::now();
  while (OpenOperations::advance_all() && !OpenOperations::none() && Clock::now() - begin < longest_progress) {
  }
}

Request::Request(std::shared_ptr<Operation> operation) : operation_(std::move(operation)) {
  operation_->nested_ = OpenOperations::busy();
  if (operation_->nested_ ? operation_->step() : OpenOperations::begin(*operation_)) {
    operation_.reset();
  } else if (!operation_->nested_) {
    OpenOperations::add(operation_);
  }
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
    std::fprintf(stderr, "shoal: %s\n", error.what());
    abort_all(static_cast<int>(Exit::failed));
  }
}

bool Request::test() {
  if (operation_ == nullptr) return true;
  move_on();
  if (!operation_->done_) return false;
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
    if (trace::on(trace::Level::comm)) {
      record(trace::Kind::wait, operation_->name(), begin_ns, operation_->unit_, operation_->group_, 0);
    }
  }
  operation_.reset();
}

void Request::trace_as(std::string_view name, std::int64_t begin_ns, std::int16_t group, std::uint64_t bytes) {
  if (operation_ == nullptr) {
    record(trace::Kind::collective, name, begin_ns, trace::unit(), group, bytes);
    return;
  }
  operation_->traced_ = true;
  operation_->begin_ns_ = begin_ns;
  operation_->unit_ = trace::unit();
  operation_->group_ = group;
  operation_->bytes_ = bytes;
}

void set_long_wait(double interval, LongWait function) { long_waits = {interval, std::move(function)}; }

void set_listener(std::function<void()> function) {
  listener.function = std::move(function);
  if (listener.function != nullptr || !OpenOperations::none()) {
    set_pump(move_at_pump);
  } else {
    set_pump(nullptr);
  }
}

void call_listener() { listener.called.store(true, std::memory_order_relaxed); }

Request Communicator::start(std::shared_ptr<Operation> operation, const Traffic& /*sent*/) {
  return Request(std::move(operation));
}

}  // namespace shoal::comm
