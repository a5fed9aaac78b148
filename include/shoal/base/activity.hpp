// SPDX-License-Identifier: Apache-2.0
// What this rank is doing, in a page of memory that other processes of the machine can read. If a rank hangs or is stopped,
// the others still read where it was (comm/watchdog.hpp). The main thread writes it as it goes: no call here allocates,
// locks or waits, and all but beat() and enter_phase() cost a few nanoseconds, since they read no clock.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::activity {

/// Groups beyond these are not counted.
inline constexpr std::size_t most_groups = 16;
/// Names are cut to one character less than this.
using Name = std::array<char, 80>;

Name name_from(std::string_view text);
inline std::string_view text_of(const Name& name) { return name.data(); }

/// A communication operation.
struct Operation {
  Name name{};
  std::uint64_t number = 0;  ///< in the order of its group's collectives, from 1; 0: it is not counted
  std::int32_t step = 0;     ///< that it belongs to; 0: before the first
  std::int16_t unit = -1;    ///< of the model; -1: none
  std::int16_t group = -1;   ///< index in the trace's list of groups; -1: none
};

/// A rank's state at one moment, as it is sent to other ranks.
struct Picture {
  std::int32_t rank = -1;
  std::int32_t waits = 0;  ///< 1: it waits for `operation`; 0: `operation` is the last one that it waited for
  Operation operation;
  Name phase{};
  std::int32_t step = 0, unit = -1;  ///< being computed; -1: none
  std::int32_t aborts = 0;           ///< 1: it ends all ranks, and has said why
  double since_s = -1;               ///< seconds since it began to wait, or since its last wait ended; -1: it never waited
  double silent_s = 0;               ///< seconds since its last heartbeat
  /// By group: number of collectives that it has started.
  std::array<std::uint64_t, most_groups> started{};
};

/// Enters a phase. `name` must have static lifetime.
void enter_phase(const char* name);
const char* phase();
void beat();
std::int64_t silence_ns();
void set_step(std::int32_t step);
void set_unit(std::int16_t unit);
/// Counts a collective of this group. Returns its number; 0 if the group is not counted.
std::uint64_t count(std::int16_t group);
/// They take the time of the last heartbeat, which is at most a kernel ago.
void begin_wait(const Operation& operation);
void end_wait();

/// This rank ends all ranks and has said why; it stays so. May be called from any thread, and is not a beat.
void set_aborting();
/// This rank's state. May be called from any thread.
Picture picture();

/// Moves the page to memory that other processes can map. Returns its file descriptor, always the same one; -1 if the system
/// does not provide such memory: then the page stays private.
int share();

/// The page of another process of this machine, mapped as long as the object exists.
class OtherPage {
 public:
  OtherPage() = default;
  /// process: its number; descriptor: what share() returned there. If the page cannot be mapped, readable() is false.
  OtherPage(std::int64_t process, int descriptor);
  ~OtherPage();
  OtherPage(OtherPage&& other) noexcept;
  OtherPage& operator=(OtherPage&& other) noexcept;

  bool readable() const { return page_ != nullptr; }
  Picture picture() const;

 private:
  const void* page_ = nullptr;
};

/// Names of the model's units, for messages. To be called by the main thread before the first step.
void name_units(std::vector<std::string> names);
/// "h.3"; the number if the units have no names.
std::string unit_name(int unit);

}  // namespace shoal::activity
