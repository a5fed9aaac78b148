// SPDX-License-Identifier: Apache-2.0
// The trace: one HDF5 file per run, written by all ranks at once. Schema (format_version 3):
//   /            attributes: format_version, program, version, started (ISO 8601, UTC), world_size, nodes, level
//                (off | steps | comm | kernels), complete (1 if the file was closed at the end of the run, with all events;
//                else 0), sealed (set to 1 together with complete: a seal over everything but the rows of /events follows
//                behind HDF5's end, src/io/hdf5/seal.hpp), untimed_spans (how often a queue's work was not timed, of all
//                ranks until the last flush, since a step had more of it than there is memory for), zero_unix_ns (time 0 by
//                the clock of rank 0's node, nanoseconds since 1970 in UTC), parameters (of the model), data (a sentence).
//                The last three are absent from files of older programs
//   /options     attributes: one string per option
//   /changed     string [n]: names of the options that differ from their defaults; absent from files of older programs
//   /machine     attributes: device, threads (per rank), libraries, peak GFLOP/s per rank (measured), FLOP per token (of the
//                model, forward and backward); datasets by rank, [world_size]: hosts (string), node,
//                local_rank
//   /names       string [n]: names of events, by Event.name (one table for all ranks)
//   /units, /groups   string [n]: names by Event.unit and Event.group. Each of /groups is a kind that may have several
//                groups:
//   /group_parts  int32 [groups x world_size]: number of the group, within the kind, that each rank belongs to
//   /unit_elements  uint64 [n]: number of parameters of each of /units
//   /kinds       string [n]: names by Event.kind
//   /queues      string [n]: names by Event.queue: "host", then the queues of the device, if it is not the host
//   /events      compound [n], extendable, in chunks of 512 rows with HDF5's filters shuffle and deflate: begin_ns,
//                duration_ns, bytes, name, step, unit, kind, group, micro (number of the micro-batch in the step, of all
//                ranks; -1: none, or one above 32767), depth, queue, rank; attribute checksum
//                (hexadecimal string; absent from files of older programs): in a complete file, the sum modulo 2^64 of
//                XXH3_64bits(row, seed = the row's index). What a rank writes in a flush begins with a new chunk; rows with
//                kind 65535, name -1 and rank -1 fill up its last one, and are no events
//   /flushes     compound [flushes x world_size]: flush, rank, first (row of /events), count, dropped (events that the rank
//                dropped since the previous flush)
// begin_ns counts from a barrier at the start of the run, which aligns the ranks' clocks. Before each flush every rank
// records counters clock/barrier (value: the number of the flush) right after barriers; they show how the clocks drift. Only
// rows of /events that a row of /flushes covers are events; in files of older programs others may be left by a run that was
// killed during a flush. The spans of a queue (device/timing.hpp) are events whose `queue` is not 0. They do not overlap,
// and are in the queue's order; begin_ns is by the host's clock.
//
// At level comm, ZeRO stage 1 and 12 blocks a rank writes some 24 events in a step. Compressed they take about 200 bytes.
//
// In files of format_version 1 events have no member `queue`, `depth` is of 32 bits, and there is no /queues: all events are
// of the host. In formats 1 and 2 /events has no filters, and no rows that fill up chunks. Both can still be read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "shoal/base/trace.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/io/trace_header.hpp"

namespace shoal::io {

class TraceFile {
 public:
  /// Collective. The file must not exist.
  TraceFile(comm::World& world, const std::filesystem::path& file, const TraceHeader& header);
  /// Not collective. If close() was not called, the file has the events that were flushed, and is marked as not complete.
  ~TraceFile();
  /// Collective. Drains every rank's events and appends them. Disk space is reserved first. If there is not enough, all
  /// ranks stop writing events, rank 0 prints a line about it, and the run continues.
  void flush();
  /// Collective. Flushes, marks the file as complete, and seals it.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Attributes and sizes of a trace.
struct TraceContents {
  std::int64_t format_version = 0, world_size = 0, nodes = 0;
  std::string version, started, level;
  bool complete = false;
  std::uint64_t events = 0, flushes = 0, dropped = 0, file_bytes = 0;
  std::vector<std::string> names;
  std::vector<std::string> queues;  ///< of the device; none if the host is the device
  std::int64_t untimed_spans = 0;
  bool sealed = false;  ///< the seal agrees, so at most rows of /events can have changed since the file was closed
};
/// Reads them on one rank. bad_input() if the file is not a trace, or is damaged. verify: also compares the checksum of the
/// rows of a sealed trace, and refuses a trace that has lost its seal.
TraceContents describe_trace(const std::filesystem::path& file, bool verify = false);

}  // namespace shoal::io
