// SPDX-License-Identifier: Apache-2.0
// What happened when, on this rank: events, counters and memory marks in a ring of fixed size. Everybody records, io/
// writes (io/trace_file.hpp). One thread records: the one that computes and communicates.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/base/types.hpp"

namespace shoal::trace {

enum class Level : std::uint8_t { off, steps, comm, kernels };

/// What an event is about. The values are written to the file; add at the end only.
enum class Kind : std::uint16_t {
  step,        ///< one optimizer step
  phase,       ///< a part of a step: data, forward, backward, reduce, clip, optimizer, publish; recompute in
               ///< backward; checkpoint, evaluate
  collective,  ///< from the start of an operation until its last byte; bytes: sent by this rank
  wait,        ///< this rank waited for an operation: the exposed part of a collective
  kernel,      ///< one kernel; bytes: 0, or what it must move
  io,          ///< reading or writing a file; bytes: of this rank
  counter,     ///< a sampled value: `bytes` holds it (memory marks are counters named memory/...)
};

/// One record, 48 bytes, as it stands in the file.
struct Event {
  std::int64_t begin_ns = 0;     ///< since the start of the run on this rank's steady clock, aligned over ranks at start
  std::int64_t duration_ns = 0;  ///< 0 for counters
  std::uint64_t bytes = 0;
  std::int32_t name = 0;   ///< index into names()
  std::int32_t step = 0;   ///< step being computed, from 1; 0 before the first
  std::int16_t unit = -1;  ///< unit of the model, -1: none; of a message for several: the one that it waited for,
                           ///< or that waits for it
  std::uint16_t kind = 0;
  std::int16_t group = -1;  ///< communicator (index into group names), -1: none
  std::int16_t micro = -1;  ///< micro-batch of the step on this rank, -1: none
  std::int32_t depth = 0;   ///< nesting depth when it began
  std::int32_t reserved = 0;
};
static_assert(sizeof(Event) == 48);

/// Starts recording. `capacity` events are kept until drain(); when full, further events are dropped and counted.
void start(Level level, std::size_t capacity);
void stop();
Level level();
inline bool on(Level wanted);

/// Nanoseconds since the run's start (steady clock).
std::int64_t now_ns();
/// Moves this rank's zero so that ranks agree; called once, right after a barrier.
void set_zero();

/// The index of a name, made on first use. Names of a run are few; ranks may number them differently (each rank's table is
/// written to the file).
std::int32_t name_index(std::string_view name);
const std::vector<std::string>& names();

/// What later events are attributed to.
void set_step(std::int32_t step);
void set_micro(std::int16_t micro);
void set_unit(std::int16_t unit);
std::int32_t step();
std::int16_t unit();

void record(const Event& event);
/// Of the unit that unit() names, if any.
void counter(std::string_view name, std::uint64_t value);

/// Later events belong to a unit, until the end of the scope: to one other than the unit that runs, where something is
/// started or given up ahead of its use.
class OnBehalfOf {
 public:
  explicit OnBehalfOf(int unit) : before_(trace::unit()) { set_unit(static_cast<std::int16_t>(unit)); }
  ~OnBehalfOf() { set_unit(before_); }
  OnBehalfOf(const OnBehalfOf&) = delete;
  OnBehalfOf& operator=(const OnBehalfOf&) = delete;

 private:
  std::int16_t before_;
};

/// The events recorded since the last drain, oldest first; dropped() counts those lost since the start.
std::vector<Event> drain();
std::size_t pending();
std::size_t dropped();

/// An event from construction to destruction.
class Region {
 public:
  Region(Level level, Kind kind, std::string_view name, std::uint64_t bytes = 0);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

 private:
  bool on_;
  Event event_;
};

namespace detail {
extern Level current;
}
inline bool on(Level wanted) { return detail::current >= wanted && detail::current != Level::off; }

}  // namespace shoal::trace
