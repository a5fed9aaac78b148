// SPDX-License-Identifier: Apache-2.0
// Chunks of a dataset as HDF5's filters shuffle and deflate store them. Ranks compress their own chunks, which HDF5 would do
// on one rank; and chunks of files from anywhere are unpacked here, since HDF5's deflate grows its buffer as far as the data
// say, and HDF5 1.10 does not notice a chunk that is too short.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shoal/base/types.hpp"
#include "shoal/io/hdf5.hpp"

namespace shoal::io {

/// shuffle: the first bytes of all records, then their second bytes, and so on, so that bytes that hardly change lie side by
/// side. deflate: zlib's format.
std::vector<std::byte> pack(Span<const std::byte> chunk, std::size_t record_bytes);

/// The inverse. bad_input() that begins with `what` unless `packed` gives exactly chunk.size() bytes; it never writes more.
void unpack(Span<const std::byte> packed, std::size_t record_bytes, Span<std::byte> chunk, const std::string& what);

namespace hdf5 {

/// Sets both filters in the properties of a dataset that is created.
void pack_chunks(const Handle& create, const std::string& name);
/// bad_input() unless a dataset has one dimension, chunks of `rows` records, and exactly these filters.
void require_packed(const Handle& dataset, std::uint64_t rows, const std::string& name);
/// Reads the chunk that begins with this row, of a dataset that passed require_packed(). chunk: all of its bytes.
void read_packed(const Handle& dataset, std::uint64_t row, std::size_t record_bytes, Span<std::byte> chunk,
                 const std::string& name);

/// bad_input() if a chunk with any of these rows (indices of the first dimension) does not give as many bytes as it should,
/// of a dataset with any of the filters that require_stored() allows. HDF5 would read beyond the end of a buffer.
void require_whole_chunks(const Handle& dataset, std::uint64_t first, std::uint64_t rows, const std::string& name);

}  // namespace hdf5
}  // namespace shoal::io
