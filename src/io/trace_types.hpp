// SPDX-License-Identifier: Apache-2.0
// The records of a trace as HDF5 has them.
#pragma once

#include <cstdint>

#include "shoal/base/trace.hpp"
#include "shoal/base/types.hpp"
#include "shoal/io/hdf5.hpp"

namespace shoal::io {

/// Rows of /events are allocated in chunks: 4096 rows of 48 bytes, 192 KiB.
inline constexpr std::uint64_t trace_chunk_rows = 4096;

/// One row of /flushes.
struct FlushRow {
  std::int32_t flush = 0, rank = 0;
  std::uint64_t first = 0, count = 0, dropped = 0;
};

/// trace::Event as it stands in memory, little-endian; its last, reserved word holds the rank.
hdf5::Handle event_type();
hdf5::Handle flush_type();

/// Sum modulo 2^64 of XXH3_64bits(row, seed = the row's index), over rows of /events: its checksum, however ranks share
/// them.
std::uint64_t sum_of_rows(Span<const trace::Event> rows, std::uint64_t first);

}  // namespace shoal::io
