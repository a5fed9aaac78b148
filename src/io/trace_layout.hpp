// SPDX-License-Identifier: Apache-2.0
// The HDF5 side of the trace file, held by rank 0 alone: datasets grow here, and the space of their new rows is told to the
// ranks, which write the rows themselves (io/hdf5.hpp, [Note: HDF5 by rank 0, raw data by all ranks]).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "files.hpp"
#include "seal.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/io/hdf5.hpp"
#include "shoal/io/trace_file.hpp"
#include "trace_types.hpp"

namespace shoal::io {

class TraceLayout {
 public:
  TraceLayout(const std::filesystem::path& file, comm::World& world, const TraceHeader& header);
  /// Gives the file, so far under a temporary name, its own.
  void commit_as(const std::filesystem::path& file);
  /// Reserves disk space, makes /events `rows` long, and returns where the chunks begin that hold rows before .. rows-1.
  std::vector<std::uint64_t> extend(std::uint64_t before, std::uint64_t rows);
  /// Adds to /names and /flushes and hands everything to the system, so that readers find it after a kill.
  void append(const std::vector<std::string>& new_names, const std::vector<FlushRow>& rows);
  /// Marks the file complete and seals it; checksum: of /events.
  void close(std::uint64_t checksum);
  /// Closes it as it is.
  void abandon();

 private:
  File space_;  // the same file, to reserve space with
  hdf5::Handle file_, events_, names_, flushes_;
  std::vector<Extent> chunks_;  // of /events
};

}  // namespace shoal::io
