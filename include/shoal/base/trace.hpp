// SPDX-License-Identifier: Apache-2.0
// Records what happened when on this rank: events, counters and memory marks, in a buffer of fixed size. All parts of the
// program record; io/trace_file.hpp writes the buffer to the file. Only the main thread records. What a device does later
// than it is told to is timed by the device itself (device/timing.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/base/names.hpp"
#include "shoal/base/types.hpp"

namespace shoal::trace {

/// trace.level: how much is recorded. Each level includes the ones before it.
enum class Level : std::uint8_t { off, steps, comm, kernels };
inline constexpr std::array level_names = {Named{Level::off, "off"}, Named{Level::steps, "steps"},
                                           Named{Level::comm, "comm"}, Named{Level::kernels, "kernels"}};
constexpr const auto& table_of(Level) { return level_names; }

/// Kinds of events. Their values are written to the file, so new kinds may be added only at the end.
enum class Kind : std::uint16_t {
  step,        ///< one optimizer step
  phase,       ///< a part of a step: data, forward, backward, recompute (within backward), reduce, losses, clip, device
               ///< (within clip: the host waits for enqueued work), optimizer, publish, release, synchronise; between
               ///< steps: checkpoint, evaluate
  collective,  ///< a communication operation, from its start to its completion; bytes: sent by this rank
  wait,        ///< this rank waited for an operation: the exposed part of a collective
  kernel,      ///< one kernel; bytes: the least that it must read and write, or 0
  io,          ///< reading or writing a file; bytes: this rank's part
  counter,     ///< a sampled value, which `bytes` holds (memory marks are counters named memory/...)
  // What a queue of the device did (Event::queue), by the device's own clock. These are kinds of their own, so that nobody
  // who adds up the events of the host counts anything twice.
  device_kernel,      ///< one kernel or product; bytes: 0
  device_copy,        ///< a copy between memory of the device and of the host; bytes: copied
  device_collective,  ///< an operation on the queue, with the time that it waited for other ranks; bytes: 0, since the event
                      ///< of kind `collective` has them
};

/// One record of 48 bytes, as it is written to the file.
struct Event {
  std::int64_t begin_ns = 0;     ///< since the start of the run on this rank's steady clock, aligned over ranks at start
  std::int64_t duration_ns = 0;  ///< 0 for counters
  std::uint64_t bytes = 0;
  std::int32_t name = 0;   ///< index into names()
  std::int32_t step = 0;   ///< step being computed, from 1; 0 before the first
  std::int16_t unit = -1;  ///< unit of the model, -1: none. A message of several units is recorded under one of them: a
                           ///< gradient message under the unit that completed it, a parameter message under its first unit.
                           ///< An action of a pipeline is a phase under the first unit of its part
  std::uint16_t kind = 0;
  std::int16_t group = -1;  ///< communicator (index into group names), -1: none
  std::int16_t micro = -1;  ///< micro-batch of the step on this rank, -1: none
  std::int16_t depth = 0;   ///< nesting depth when it began
  std::int16_t queue = 0;   ///< 0: the host did it; q + 1: the device's queue q (device/queue.hpp)
  std::int32_t reserved = 0;
};
static_assert(sizeof(Event) == 48);

/// Starts recording. The buffer holds `capacity` events; once it is full, further ones are dropped and counted until
/// drain().
void start(Level level, std::size_t capacity);
void stop();
Level level();
inline bool on(Level wanted);

/// Nanoseconds since the run's start (steady clock).
std::int64_t now_ns();
/// Makes the present moment this rank's zero. Called once, right after a barrier, so that the ranks' times agree.
void set_zero();

/// Returns the index of a name, and adds the name to the table if it is new. A run has few names. Ranks may number them
/// differently; io/trace/trace_file.cpp translates the indices to one table for all ranks.
std::int32_t name_index(std::string_view name);
const std::vector<std::string>& names();

/// Set the step, micro-batch and unit that later events are attributed to.
void set_step(std::int32_t step);
void set_micro(std::int16_t micro);
void set_unit(std::int16_t unit);
std::int32_t step();
std::int16_t micro();
std::int16_t unit();

void record(const Event& event);
/// Records a counter, attributed to the current unit().
void counter(std::string_view name, std::uint64_t value);

/// Attributes the events of this scope to `unit` instead of the unit that is being computed: for example if the next unit's
/// gather is started early, or memory of a unit is released.
class OnBehalfOf {
 public:
  explicit OnBehalfOf(int unit) : before_(trace::unit()) { set_unit(static_cast<std::int16_t>(unit)); }
  ~OnBehalfOf() { set_unit(before_); }
  OnBehalfOf(const OnBehalfOf&) = delete;
  OnBehalfOf& operator=(const OnBehalfOf&) = delete;

 private:
  std::int16_t before_;
};

/// Returns the events recorded since the last drain, oldest first, and empties the buffer. pending() is their number;
/// dropped() is the number of events lost since the start.
std::vector<Event> drain();
std::size_t pending();
std::size_t dropped();

/// Called when a recorded Region begins, with its name, which is valid during the call, and when it ends: for profilers that
/// show ranges beside what they measure. Null: nobody is called.
struct RegionListener {
  void (*begin)(const char* name) = nullptr;
  void (*end)() = nullptr;
};
/// To be called while no Region is open.
void set_region_listener(const RegionListener& listener);

/// Records an event that lasts from its construction to its destruction.
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
