// SPDX-License-Identifier: Apache-2.0
// The HDF5 types of the records of a trace.
#pragma once

#include <cstdint>

#include "shoal/base/trace.hpp"
#include "shoal/base/types.hpp"
#include "shoal/io/hdf5.hpp"

namespace shoal::io {

/// Rows of /events in a chunk: about as many events as a rank has at level comm in 20 steps. In formats 1 and 2, any number.
inline constexpr std::uint64_t trace_chunk_rows = 512;
/// A row that is no event: it fills up the last chunk of a rank's part of a flush.
inline constexpr trace::Event filling_row = {.name = -1, .kind = 0xFFFF, .reserved = -1};

/// One row of /flushes.
struct FlushRow {
  std::int32_t flush = 0, rank = 0;
  std::uint64_t first = 0, count = 0, dropped = 0;
};

/// The version of the format that is written, and the oldest one that is read.
inline constexpr int trace_format = 3, oldest_trace_format = 1;

/// trace::Event as it is in memory, little-endian; its reserved last word contains the rank. In format 1, `depth` has the
/// place of `depth` and `queue`.
hdf5::Handle event_type(std::int64_t format = trace_format);
hdf5::Handle flush_type();

/// Checksum of rows of /events, the filling ones included: sum modulo 2^64 of XXH3_64bits(row, seed = the row's index).
/// `first`: index of the first row. The checksum of all rows is the sum over the ranks' rows, however they are distributed.
std::uint64_t sum_of_rows(Span<const trace::Event> rows, std::uint64_t first);

}  // namespace shoal::io
