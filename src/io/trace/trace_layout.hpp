// SPDX-License-Identifier: Apache-2.0
// The HDF5 part of the trace file. It exists on rank 0 only, which extends the datasets and sends the offsets of the new
// rows to the ranks; they write the rows themselves (io/hdf5.hpp, [Note: HDF5 by rank 0, raw data by all ranks]).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "io/files/files.hpp"
#include "io/hdf5/seal.hpp"
#include "io/trace/trace_types.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/io/hdf5.hpp"
#include "shoal/io/trace_header.hpp"

namespace shoal::io {

class TraceLayout {
 public:
  TraceLayout(const std::filesystem::path& file, comm::World& world, const TraceHeader& header);
  /// Renames the file, so far under a temporary name.
  void commit_as(const std::filesystem::path& file);
  /// Reserves disk space and extends /events, which has `before` rows in whole chunks, by chunks of these sizes in bytes.
  /// Returns their offsets in the file. What is on disk does not refer to them before append(), when they were written.
  std::vector<std::uint64_t> extend(std::uint64_t before, const std::vector<std::uint32_t>& sizes);
  /// After a failure: only the first `rows` rows of /events were written. Forgets the others.
  void shrink(std::uint64_t rows);
  /// Appends to /names and /flushes, and passes everything to the operating system, so that it is in the file even if the
  /// run is killed. untimed_spans: of all ranks, since the start.
  void append(const std::vector<std::string>& new_names, const std::vector<FlushRow>& rows, std::uint64_t untimed_spans);
  /// Marks the file as complete, closes and seals it. checksum: that of /events.
  void close(std::uint64_t checksum);
  /// Closes the file as it is.
  void abandon();

 private:
  File space_;  // the same file, opened to reserve space
  hdf5::Handle file_, events_, names_, flushes_;
  std::uint64_t ranks_;
  std::vector<Extent> raw_;  // places of the chunks of /events; chunks that lie one behind another are one extent
};

}  // namespace shoal::io
