// SPDX-License-Identifier: Apache-2.0
// Writes a recording as a time-independent trace, which SimGrid's SMPI replays on a described platform
// (https://simgrid.org/doc/latest/Tutorial_MPI_Applications.html, "Replaying traces"). One file for all processes; the lines
// of an action stand together, so that a replay keeps only few of them in memory.
//
// Process r (1 + lanes) + l is lane l of rank r, and lane 0 the rank itself ([Note: lanes] in recording.hpp). A line is the
// number of a process and what it does:
//   init; finalize
//   compute FLOPS                      1e9 are a second of a host of the platform
//   isend|recv|irecv PARTNER TAG BYTES a message of an exchange, or several (comm/planned_exchange.hpp), or between stages
//   waitall
//   send|recv PARTNER 0 1              a signal between a rank and its lanes. (For a message without bytes SMPI would look
//                                      from time to time only.)
// Tag 1 is that of exchanges of a few numbers, which the plan does not count; collectives have tags from 2, and messages
// between stages those from first_message_tag.
#pragma once

#include <cstdint>
#include <ostream>

#include "shoal/plan/recording.hpp"

namespace shoal::plan {

inline constexpr double flops_per_second = 1e9;
inline constexpr int lane_tag = 0, control_tag = 1, first_tag = 2;
inline constexpr int first_message_tag = 30'000;  ///< tags of collectives repeat below it
inline constexpr int signal_bytes = 1;

/// Number of lines of a trace, approximately: it counts those of the first rank of a stage for all.
double replay_lines(const Recording& recording, int ranks);

/// Returns the number of bytes that were written. The caller looks at the stream's state.
std::uint64_t write_replay_trace(const Recording& recording, int ranks, std::ostream& out);

}  // namespace shoal::plan
