// SPDX-License-Identifier: Apache-2.0
// The HDF5 side of the trace file, held by rank 0 alone: datasets grow here, and the space of their new rows is told to the
// ranks, which write the rows themselves (io/hdf5.hpp, [Note: HDF5 by rank 0, raw data by all ranks]).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "files.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/io/hdf5.hpp"
#include "shoal/io/trace_file.hpp"

namespace shoal::io {

/// Rows of /events are allocated in chunks: 4096 rows of 48 bytes, 192 KiB.
inline constexpr std::uint64_t trace_chunk_rows = 4096;

/// One row of /flushes.
struct FlushRow {
  std::int32_t flush = 0, rank = 0;
  std::uint64_t first = 0, count = 0, dropped = 0;
};

std::vector<FlushRow> read_flushes(const hdf5::Handle& file);

class TraceLayout {
 public:
  TraceLayout(const std::filesystem::path& file, comm::World& world, const TraceHeader& header);
  /// Reserves disk space, makes /events `rows` long, and returns where the chunks begin that hold rows before .. rows-1.
  std::vector<std::uint64_t> extend(std::uint64_t before, std::uint64_t rows);
  /// Adds to /names and /flushes and hands everything to the system, so that readers find it after a kill.
  void append(const std::vector<std::string>& new_names, const std::vector<FlushRow>& rows);
  void close(bool complete);

 private:
  File space_;  // the same file, to reserve space with
  hdf5::Handle file_, events_, names_, flushes_;
};

}  // namespace shoal::io
