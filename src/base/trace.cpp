// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/trace.hpp"

#include <chrono>
#include <map>
#include <utility>

#include "shoal/base/activity.hpp"

namespace shoal::trace {

namespace detail {
Level current = Level::off;
}

namespace {

using Clock = std::chrono::steady_clock;

struct State {
  Clock::time_point zero = Clock::now();
  std::vector<Event> ring;
  std::size_t capacity = 0, dropped = 0;
  std::map<std::string, std::int32_t, std::less<>> index;
  std::vector<std::string> names;
  std::int32_t step = 0;
  std::int16_t micro = -1, unit = -1, depth = 0;
  RegionListener listener;
};

State& state() {
  static State s;
  return s;
}

}  // namespace

void start(Level level, std::size_t capacity) {
  State& s = state();
  s.ring.clear();
  s.ring.reserve(level == Level::off ? 0 : capacity);
  s.capacity = capacity;
  s.dropped = 0;
  detail::current = level;
}

void stop() { detail::current = Level::off; }
Level level() { return detail::current; }

std::int64_t now_ns() { return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - state().zero).count(); }
void set_zero() { state().zero = Clock::now(); }

std::int32_t name_index(std::string_view name) {
  State& s = state();
  const auto found = s.index.find(name);
  if (found != s.index.end()) return found->second;
  const auto index = static_cast<std::int32_t>(s.names.size());
  s.names.emplace_back(name);
  s.index.emplace(name, index);
  return index;
}

const std::vector<std::string>& names() { return state().names; }

void set_step(std::int32_t step) {
  state().step = step;
  activity::set_step(step);
}
void set_micro(std::int16_t micro) { state().micro = micro; }
void set_unit(std::int16_t unit) {
  state().unit = unit;
  activity::set_unit(unit);
}
std::int32_t step() { return state().step; }
std::int16_t micro() { return state().micro; }
std::int16_t unit() { return state().unit; }

void record(const Event& event) {
  State& s = state();
  if (s.ring.size() < s.capacity) {
    s.ring.push_back(event);
  } else {
    ++s.dropped;
  }
}

void counter(std::string_view name, std::uint64_t value) {
  if (!on(Level::steps)) return;
  Event event;
  event.begin_ns = now_ns();
  event.bytes = value;
  event.name = name_index(name);
  event.step = state().step;
  event.unit = unit();
  event.kind = static_cast<std::uint16_t>(Kind::counter);
  record(event);
}

std::vector<Event> drain() {
  State& s = state();
  std::vector<Event> events = std::exchange(s.ring, {});
  s.ring.reserve(s.capacity);
  return events;
}

std::size_t pending() { return state().ring.size(); }
std::size_t dropped() { return state().dropped; }

void set_region_listener(const RegionListener& listener) { state().listener = listener; }

Region::Region(Level level, Kind kind, std::string_view name, std::uint64_t bytes) : on_(trace::on(level)) {
  if (!on_) return;
  State& s = state();
  event_.begin_ns = now_ns();
  event_.bytes = bytes;
  event_.name = name_index(name);
  event_.step = s.step;
  event_.unit = s.unit;
  event_.kind = static_cast<std::uint16_t>(kind);
  event_.micro = s.micro;
  event_.depth = s.depth++;
  if (s.listener.begin != nullptr) s.listener.begin(s.names[static_cast<std::size_t>(event_.name)].c_str());
}

Region::~Region() {
  if (!on_) return;
  State& s = state();
  --s.depth;
  if (s.listener.end != nullptr) s.listener.end();
  event_.duration_ns = now_ns() - event_.begin_ns;
  record(event_);
}

}  // namespace shoal::trace
