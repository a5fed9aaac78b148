// SPDX-License-Identifier: Apache-2.0
// The trace: one HDF5 file per run, written by all ranks at once. Schema (format_version 1):
//   /            attributes: format_version, program, version, started (ISO 8601, UTC), world_size, nodes, level
//                (off | steps | comm | kernels), complete (1: closed at the end of the run, with all events; else 0), sealed
//                (1: behind HDF5's end stands a seal over all that is not rows of /events, src/io/seal.hpp; from complete
//                on)
//   /options     attributes: one string per option
//   /machine     attributes: device, threads per rank, libraries; datasets by rank, [world_size]: hosts (string), node and
//                local_rank (the rank's number on its node)
//   /names       string [n]: what Event.name refers to (one table for all ranks; ranks' own indices are translated)
//   /units, /groups   string [n]: what Event.unit and Event.group refer to; of /groups there may be several of one name:
//   /group_parts  int32 [groups x world_size]: which of them a rank is in (those of one number are one group)
//   /unit_elements  uint64 [n]: parameters of each of /units
//   /kinds       string [n]: what Event.kind refers to
//   /events      compound [n], extendable: begin_ns, duration_ns, bytes, name, step, unit, kind, group, micro, depth, rank;
//                attribute checksum (hexadecimal string; absent from files of older programs): when complete, the sum modulo
//                2^64 of XXH3_64bits(row, seed = the row's index)
//   /flushes     compound [flushes x world_size]: flush, rank, first (row of /events), count, dropped (since the flush
//   before)
// begin_ns counts from a barrier at the start of the run; ranks' clocks are aligned there. Rows of /events that no row of
// /flushes covers were not written (a run that was killed during a flush).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "shoal/base/trace.hpp"
#include "shoal/comm/world.hpp"

namespace shoal::io {

struct TraceHeader {
  std::string version;
  std::map<std::string, std::string> options, machine;
  std::vector<std::string> units;
  std::vector<comm::GroupKind> groups;
  std::vector<std::uint64_t> unit_elements;  ///< parameters of each unit
};

class TraceFile {
 public:
  /// Collective. Replaces nothing: the file must not exist.
  TraceFile(comm::World& world, const std::filesystem::path& file, const TraceHeader& header);
  /// Without close(), the file keeps what was flushed and stays marked as not complete. Not collective.
  ~TraceFile();
  /// Collective: appends every rank's drained events. Disk space is reserved first; when there is none, all ranks agree to
  /// write no more, one line says so, and the run goes on.
  void flush();
  /// Collective: flushes and marks the file complete.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What is in a trace: attributes and sizes, read by one rank.
struct TraceContents {
  std::int64_t format_version = 0, world_size = 0, nodes = 0;
  std::string version, started, level;
  bool complete = false;
  std::uint64_t events = 0, flushes = 0, dropped = 0, file_bytes = 0;
  std::vector<std::string> names;
  bool sealed = false;  ///< nothing but rows of /events can have changed since it was closed
};
/// bad_input() for what is no trace, or is damaged. verify: the rows of a sealed trace are read back too, and one that has
/// lost its seal is refused.
TraceContents describe_trace(const std::filesystem::path& file, bool verify = false);

}  // namespace shoal::io
