// SPDX-License-Identifier: Apache-2.0
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <deque>
#include <vector>

#include "device/marks.hpp"
#include "device/simulated/simulated_settings.hpp"
#include "device/simulated/simulated_timing.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/philox.hpp"
#include "shoal/base/quiet_pump.hpp"
#include "shoal/device/kind.hpp"
#include "shoal/device/queue.hpp"
#include "shoal/device/simulated.hpp"
#include "shoal/device/timing.hpp"

namespace shoal::device {

namespace {

using simulated::Order;

/// Work, or a place in another queue that what follows must not overtake.
struct Item {
  std::function<bool()> work;  // returns false while it must wait
  bool may_wait = false;
  Queue other{};
  std::uint64_t place = 0;
  std::size_t span = 0;  // of work: span_of_work()
};

struct Line {
  std::deque<Item> items;
  std::uint64_t enqueued = 0, done = 0;
  std::size_t may_wait = 0;  // how many of the items
};

/// Between two attempts to go on with work that waits for another process.
class Pause {
 public:
  void operator()() {
    constexpr int yields = 20;
    constexpr timespec nap{0, 50'000};
    if (tries_ < yields) {
      ++tries_;
      sched_yield();
    } else {
      nanosleep(&nap, nullptr);
    }
    quiet_pump();
  }

 private:
  int tries_ = 0;
};

class Queues {
 public:
  Line& line(Queue queue) { return lines_[static_cast<std::size_t>(queue)]; }
  Queue& current() { return current_; }
  std::uint64_t& waits() { return waits_; }

  void enqueue(Item item) {
    Line& to = line(current_);
    to.may_wait += item.may_wait ? 1 : 0;
    to.items.push_back(std::move(item));
    ++to.enqueued;
    if (simulation_.order == Order::in_order) do_until(current_, to.enqueued);
    // Now and then some work is done early.
    if (simulation_.order == Order::drawn && draw(4) == 0) do_some(draw(8));
  }

  bool done(Queue queue, std::uint64_t place) { return line(queue).done >= place; }

  /// Does work until this place of the queue is reached: as little as possible, or in the order drawn. Returns false if the
  /// rest must wait for other processes.
  bool approach(Queue queue, std::uint64_t place) {
    if (done(queue, place)) return true;
    const simulated::Opened opened;
    while (!done(queue, place)) {
      const bool drawn = simulation_.order == Order::drawn;
      if (!do_next(drawn ? any_ready() : ready_for(queue)) && !do_what_others_may_wait_for()) return false;
    }
    return true;
  }

  /// The same; meanwhile messages of the host advance.
  void do_until(Queue queue, std::uint64_t place) {
    for (Pause pause; !approach(queue, place); pause()) {
    }
  }

  bool pending() const {
    return std::any_of(lines_.begin(), lines_.end(), [](const Line& line) { return !line.items.empty(); });
  }

  void drop() {
    for (Line& line : lines_) {
      for (const Item& item : line.items) simulated::work_ends(item.span);
      line.items.clear();
      line.done = line.enqueued;
      line.may_wait = 0;
    }
  }

 private:
  bool ready(Queue queue) {
    const Line& here = line(queue);
    return !here.items.empty() && (here.items.front().work || done(here.items.front().other, here.items.front().place));
  }

  /// The queue whose work the given one waits for first; itself if it does not wait. Events are recorded before anything
  /// waits for them, so queues cannot wait for each other in a circle.
  Queue ready_for(Queue queue) {
    while (!ready(queue)) queue = line(queue).items.front().other;
    return queue;
  }

  Queue any_ready() {
    std::vector<Queue> candidates;
    for (std::size_t q = 0; q < queues; ++q) {
      if (ready(static_cast<Queue>(q))) candidates.push_back(static_cast<Queue>(q));
    }
    return candidates[draw(candidates.size())];
  }

  /// Does work of any queue: this process may be waiting for a process that needs it. Returns false if nothing could be
  /// done.
  bool do_what_others_may_wait_for() {
    bool any = false;
    for (std::size_t q = 0; q < queues; ++q) {
      const auto queue = static_cast<Queue>(q);
      if (line(queue).may_wait > 0 && do_next(ready_for(queue))) any = true;
    }
    return any;
  }

  void do_some(std::size_t count) {
    const simulated::Opened opened;
    for (; count > 0; --count) {
      bool any = false;
      for (std::size_t q = 0; q < queues; ++q) any |= ready(static_cast<Queue>(q));
      if (!any) return;
      do_next(any_ready());
    }
  }

  /// Returns false if the work must wait.
  bool do_next(Queue queue) {
    /// At the end of the work, also if it throws.
    struct Count {
      Line& line;
      const Item& item;
      bool complete = true;
      ~Count() {
        if (!complete) return;
        simulated::work_ends(item.span);
        ++line.done;
        heartbeat::beat();
        line.may_wait -= item.may_wait ? 1 : 0;
      }
    };
    Line& here = line(queue);
    Item item = std::move(here.items.front());
    here.items.pop_front();
    Count count{here, item};
    simulated::work_begins(item.span);
    if (item.work && !item.work()) count.complete = false;
    if (!count.complete) here.items.push_front(std::move(item));
    return count.complete;
  }

  /// A random number below `bound`.
  std::size_t draw(std::size_t bound) {
    const std::uint64_t index = draws_++;
    const Philox4 bits = philox(simulation_.seed, {static_cast<std::uint32_t>(index),
                                                   static_cast<std::uint32_t>(index >> 32U), simulation_.rank, 0});
    return bits[0] % bound;
  }

  simulated::Simulation simulation_ = simulated::simulation_of_environment();
  std::array<Line, queues> lines_;
  Queue current_ = Queue::compute;
  std::uint64_t waits_ = 0, draws_ = 0;
};

Queues& all() {
  static Queues all_queues;
  return all_queues;
}

}  // namespace

namespace simulated {

void enqueue(std::function<void()> work) {
  const auto at_once = [work = std::move(work)] {
    work();
    return true;
  };
  all().enqueue({at_once, false, {}, 0, span_of_work(all().current())});
}
void enqueue_waiting(std::function<bool()> work) {
  all().enqueue({std::move(work), true, {}, 0, span_of_work(all().current())});
}
void finish_current() { all().do_until(all().current(), all().line(all().current()).enqueued); }
bool pending() { return all().pending(); }
void drop() { all().drop(); }

}  // namespace simulated

Queue marks::current_queue() { return all().current(); }

DeviceKind kind() { return DeviceKind::simulated; }
bool immediate() { return false; }
void start() { all(); }

OnQueue::OnQueue(Queue queue) : before_(all().current()) { all().current() = queue; }
OnQueue::~OnQueue() { all().current() = before_; }

/// A handle: the queue's number plus one, so that it is not null. Nothing lies at this address.
void* stream() {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(all().current()) + 1);  // NOLINT(performance-no-int-to-ptr)
}

void copy(std::size_t bytes, const void* from, void* to) {
  if (bytes == 0) return;
  const Timed timed(name_of_copy(from, to), Work::copy, bytes);
  simulated::enqueue([=] { std::memcpy(to, from, bytes); });
}

void Event::record() {
  queue_ = all().current();
  place_ = all().line(queue_).enqueued;
  asked_ = 0;
}

void Event::before_what_follows() const {
  if (queue_ == all().current() || all().done(queue_, place_)) return;
  all().enqueue({{}, false, queue_, place_, 0});
}

bool Event::reached() const {
  // The device works by itself while the host asks, but slowly.
  constexpr int patience = 3;
  if (!all().done(queue_, place_) && ++asked_ > patience) return all().approach(queue_, place_);
  return all().done(queue_, place_);
}

void Event::wait() const {
  ++all().waits();
  all().do_until(queue_, place_);
}

std::uint64_t waits() { return all().waits(); }

}  // namespace shoal::device
