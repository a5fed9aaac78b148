// SPDX-License-Identifier: Apache-2.0
// The trace: one parallel HDF5 file per run. Schema (format_version 1):
//   /            attributes: format_version, program, version, started (ISO 8601), world_size, nodes, level, complete (0 | 1)
//   /options     attributes: one string per option
//   /machine     attributes: device, threads per rank, libraries; dataset hosts [world_size] (string)
//   /names       string [n]: what Event.name refers to (one table for all ranks; ranks' own indices are translated)
//   /units, /groups   string [n]: what Event.unit and Event.group refer to
//   /kinds       string [n]: what Event.kind refers to
//   /events      compound [n], extendable: rank, begin_ns, duration_ns, bytes, name, step, unit, kind, group, micro, depth
//   /flushes     compound [flushes x world_size]: flush, rank, first (row of /events), count, dropped
// begin_ns counts from a barrier at the start of the run; ranks' clocks are aligned there.
#pragma once

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
  std::vector<std::string> units, groups;
};

class TraceFile {
 public:
  /// Collective. Replaces nothing: the file must not exist.
  TraceFile(comm::World& world, const std::filesystem::path& file, const TraceHeader& header);
  /// Closes the file; marks it complete if close() was not called.
  ~TraceFile();
  /// Collective: appends every rank's drained events. Disk space is reserved first; when there is none, all ranks agree to
  /// write no more, one line says so, and the run goes on.
  void flush();
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shoal::io
