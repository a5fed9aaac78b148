// SPDX-License-Identifier: Apache-2.0
// Simulated time in which activities share resources: messages share links, and computations share processors. An activity
// gets its part of a resource only while it uses it: this is the fluid model, with max-min fairness (Bertsekas and Gallager
// 1992, "Data Networks", 6.5.2), which simulators of clusters use (Casanova et al. 2014, SimGrid). Of two messages of one
// link, each of which would take 4 seconds alone:
//
//   first    |====----====|        ====  at the full rate
//   second       |----====|        ----  at half the rate
//
// What happens in this time is told by coroutines (Process), which wait for activities and for each other (Counter).
#pragma once

#include <coroutine>
#include <cstddef>
#include <deque>
#include <functional>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "shoal/base/types.hpp"

namespace shoal::plan {

/// A coroutine that begins when it is called, and destroys itself at its end.
struct Process {
  struct promise_type {
    Process get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { throw; }
  };
};

class FluidClock {
 public:
  using Resource = std::size_t;
  static constexpr double unlimited = std::numeric_limits<double>::infinity();

  /// A resource serves so many seconds of activities per second. credit_s: so many seconds' worth it serves at once after it
  /// has not been used for so long, as the bucket of a traffic shaper does (RFC 2697).
  Resource add(double capacity, double credit_s = 0);

  double now_s() const { return now_s_; }

  struct Delay {
    FluidClock* clock;
    double seconds;
    bool await_ready() const noexcept { return !(seconds > 0); }
    void await_suspend(std::coroutine_handle<> process) { clock->begin(*this, process); }
    void await_resume() const noexcept {}
  };
  /// co_await: the process goes on after these seconds.
  Delay delay(double seconds) { return {this, seconds}; }

  struct Use {
    FluidClock* clock;
    Span<const Resource> resources;
    double seconds, most;
    bool await_ready() const noexcept { return !(seconds > 0); }
    void await_suspend(std::coroutine_handle<> process) { clock->begin(*this, process); }
    void await_resume() const noexcept {}
  };
  /// co_await: the process goes on after an activity that uses all of these resources at the same time. It would take
  /// `seconds` at rate 1; its rate is at most `most`. Finite, unless there are resources.
  Use use(Span<const Resource> resources, double seconds, double most = unlimited) {
    return {this, resources, seconds, most};
  }

  /// The process goes on now, after those that are going on already.
  void resume(std::coroutine_handle<> process) { ready_.push_back(process); }

  /// Returns when no process goes on any more.
  void run();

 private:
  struct State {
    double capacity, credit_s, kept_s;  // kept_s: of the credit
    double left = 0, used = 0;          // in divide(): of the capacity
    std::size_t users = 0;
    double available() const { return kept_s > 0 ? at_once : capacity; }
  };
  struct Activity {
    std::vector<Resource> resources;
    double left_s, most;
    std::coroutine_handle<> process;
    double rate = 0;
    bool divided = false;
  };
  struct Pause {
    double end_s;
    std::size_t number;  // those that end at the same time go on in the order in which they began
    std::coroutine_handle<> process;
    bool operator>(const Pause& other) const { return std::pair(end_s, number) > std::pair(other.end_s, other.number); }
  };
  static constexpr double at_once = 1e6;  // rate while there is credit

  void begin(const Delay& delay, std::coroutine_handle<> process);
  void begin(const Use& use, std::coroutine_handle<> process);
  void divide();
  bool fills(const Activity& activity, double rate) const;
  double next_s() const;
  void advance_to(double next_s);

  double now_s_ = 0;
  std::deque<std::coroutine_handle<>> ready_;
  std::priority_queue<Pause, std::vector<Pause>, std::greater<>> pauses_;
  std::size_t pauses_begun_ = 0;
  std::vector<State> resources_;
  std::vector<Activity> activities_;
  bool changed_ = false;  // since divide()
};

/// What has happened so many times. Processes wait until it has happened often enough.
class Counter {
 public:
  explicit Counter(FluidClock& clock) : clock_(&clock) {}

  struct Reach {
    Counter* counter;
    std::size_t least;
    bool await_ready() const noexcept { return counter->count_ >= least; }
    void await_suspend(std::coroutine_handle<> process) { counter->waiting_.push_back({least, process}); }
    void await_resume() const noexcept {}
  };
  /// co_await: the process goes on once add() has been called this many times.
  Reach reaches(std::size_t least) { return {this, least}; }
  void add();

 private:
  FluidClock* clock_;
  std::size_t count_ = 0;
  std::vector<std::pair<std::size_t, std::coroutine_handle<>>> waiting_;
};

}  // namespace shoal::plan
