// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <vector>

#include "shoal/base/philox.hpp"
#include "shoal/device/kind.hpp"
#include "shoal/device/queue.hpp"
#include "shoal/device/simulated.hpp"
#include "simulated_settings.hpp"

namespace shoal::device {

namespace {

using simulated::Order;

/// Work, or a place in another queue that what follows must not overtake.
struct Item {
  std::function<void()> work;
  Queue other{};
  std::uint64_t place = 0;
};

struct Line {
  std::deque<Item> items;
  std::uint64_t enqueued = 0, done = 0;
};

class Queues {
 public:
  Line& line(Queue queue) { return lines_[static_cast<std::size_t>(queue)]; }
  Queue& current() { return current_; }
  std::uint64_t& waits() { return waits_; }

  void enqueue(Item item) {
    Line& to = line(current_);
    to.items.push_back(std::move(item));
    ++to.enqueued;
    if (simulation_.order == Order::in_order) do_until(current_, to.enqueued);
    // Now and then some work is done early.
    if (simulation_.order == Order::drawn && draw(4) == 0) do_some(draw(8));
  }

  bool done(Queue queue, std::uint64_t place) { return line(queue).done >= place; }

  /// Does work until this place of the queue is reached: as little as possible, or in the order drawn.
  void do_until(Queue queue, std::uint64_t place) {
    if (done(queue, place)) return;
    const simulated::Opened opened;
    while (!done(queue, place)) do_next(simulation_.order == Order::drawn ? any_ready() : ready_for(queue));
  }

  bool pending() const {
    return std::any_of(lines_.begin(), lines_.end(), [](const Line& line) { return !line.items.empty(); });
  }

  void drop() {
    for (Line& line : lines_) {
      line.items.clear();
      line.done = line.enqueued;
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

  void do_some(std::size_t count) {
    const simulated::Opened opened;
    for (; count > 0; --count) {
      bool any = false;
      for (std::size_t q = 0; q < queues; ++q) any |= ready(static_cast<Queue>(q));
      if (!any) return;
      do_next(any_ready());
    }
  }

  void do_next(Queue queue) {
    /// At the end of the work, also if it throws.
    struct Count {
      std::uint64_t& done;
      ~Count() { ++done; }
    };
    Line& here = line(queue);
    const Item item = std::move(here.items.front());
    here.items.pop_front();
    const Count count{here.done};
    if (item.work) item.work();
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

void enqueue(std::function<void()> work) { all().enqueue({std::move(work), {}, 0}); }
void finish_current() { all().do_until(all().current(), all().line(all().current()).enqueued); }
bool pending() { return all().pending(); }
void drop() { all().drop(); }

}  // namespace simulated

DeviceKind kind() { return DeviceKind::simulated; }
bool immediate() { return false; }
void start() { all(); }

OnQueue::OnQueue(Queue queue) : before_(all().current()) { all().current() = queue; }
OnQueue::~OnQueue() { all().current() = before_; }

void copy(std::size_t bytes, const void* from, void* to) {
  if (bytes == 0) return;
  simulated::enqueue([=] { std::memcpy(to, from, bytes); });
}

void Event::record() {
  queue_ = all().current();
  place_ = all().line(queue_).enqueued;
  asked_ = 0;
}

void Event::before_what_follows() const {
  if (queue_ == all().current() || all().done(queue_, place_)) return;
  all().enqueue({{}, queue_, place_});
}

bool Event::reached() const {
  // The device works by itself while the host asks, but slowly.
  constexpr int patience = 3;
  if (!all().done(queue_, place_) && ++asked_ > patience) all().do_until(queue_, place_);
  return all().done(queue_, place_);
}

void Event::wait() const {
  ++all().waits();
  all().do_until(queue_, place_);
}

std::uint64_t waits() { return all().waits(); }

}  // namespace shoal::device
