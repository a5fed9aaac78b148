// SPDX-License-Identifier: Apache-2.0
#include "io/hdf5/packed_chunk.hpp"

#include <hdf5.h>
#include <zlib.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "io/hdf5/hdf5_checks.hpp"
#include "shoal/base/error.hpp"

namespace shoal::io {

namespace {

constexpr int deflate_level = 4;  // higher ones take several times as long, and save 2 % of a trace

/// Calls visit(i, j) for byte i of the shuffled chunk and byte j of the plain one.
template <typename Visit>
void for_each_byte(std::size_t bytes, std::size_t record_bytes, const Visit& visit) {
  const std::size_t records = bytes / record_bytes;
  for (std::size_t byte = 0, i = 0; byte < record_bytes; ++byte) {
    for (std::size_t record = 0; record < records; ++record, ++i) visit(i, record * record_bytes + byte);
  }
}

Bytef* zlib_bytes(std::byte* data) { return reinterpret_cast<Bytef*>(data); }
const Bytef* zlib_bytes(const std::byte* data) { return reinterpret_cast<const Bytef*>(data); }

}  // namespace

std::vector<std::byte> pack(Span<const std::byte> chunk, std::size_t record_bytes) {
  require(chunk.size() % record_bytes == 0, "a chunk of ", chunk.size(), " bytes in records of ", record_bytes);
  std::vector<std::byte> shuffled(chunk.size());
  for_each_byte(chunk.size(), record_bytes, [&](std::size_t i, std::size_t j) { shuffled[i] = chunk[j]; });
  uLongf bytes = ::compressBound(shuffled.size());
  std::vector<std::byte> packed(bytes);
  const int status =
      ::compress2(zlib_bytes(packed.data()), &bytes, zlib_bytes(shuffled.data()), shuffled.size(), deflate_level);
  require(status == Z_OK, "a chunk cannot be compressed: ", ::zError(status));
  packed.resize(bytes);
  return packed;
}

void unpack(Span<const std::byte> packed, std::size_t record_bytes, Span<std::byte> chunk, const std::string& what) {
  std::vector<std::byte> shuffled(chunk.size());
  uLongf bytes = shuffled.size();
  const int status = ::uncompress(zlib_bytes(shuffled.data()), &bytes, zlib_bytes(packed.data()), packed.size());
  require_input(status == Z_OK && bytes == shuffled.size(), what, ": its ", packed.size(), " bytes do not give ",
                shuffled.size(), "; the file is damaged");
  for_each_byte(chunk.size(), record_bytes, [&](std::size_t i, std::size_t j) { chunk[j] = shuffled[i]; });
}

namespace hdf5 {

void pack_chunks(const Handle& create, const std::string& name) {
  checked(H5Pset_shuffle(create.id()), name);
  checked(H5Pset_deflate(create.id(), deflate_level), name);
}

void require_packed(const Handle& dataset, std::uint64_t rows, const std::string& name) {
  const Handle create(H5Dget_create_plist(dataset.id()), H5Pclose, name);
  require_input(shape_of(dataset, name).size() == 1 && H5Pget_layout(create.id()) == H5D_CHUNKED, name,
                ": not a list in chunks");
  hsize_t chunk = 0;
  checked(H5Pget_chunk(create.id(), 1, &chunk), name);
  require_input(chunk == rows, name, ": chunks of ", chunk, " rows; allowed: ", rows);
  const std::vector<int> filters = filters_of(create, name);
  require_input(filters == std::vector<int>{H5Z_FILTER_SHUFFLE, H5Z_FILTER_DEFLATE}, name,
                ": its filters are not shuffle and deflate");
}

void read_packed(const Handle& dataset, std::uint64_t row, std::size_t record_bytes, Span<std::byte> chunk,
                 const std::string& name) {
  const hsize_t first = row;
  hsize_t bytes = 0;
  checked(H5Dget_chunk_storage_size(dataset.id(), &first, &bytes), name);
  const std::string what = text(name, ": the chunk of row ", row);
  require_input(bytes > 0 && bytes <= file_bytes(dataset), what, ": ", bytes, " bytes; the file is damaged");
  std::vector<std::byte> packed(bytes);
  std::uint32_t left_out = 0;
  checked(H5Dread_chunk(dataset.id(), H5P_DEFAULT, &first, &left_out, packed.data()), name);
  require_input(left_out == 0, what, ": it is not compressed as the others are");
  unpack(packed, record_bytes, chunk, what);
}

namespace {

/// Undoes the filters of one chunk, all but shuffle, which changes no length. bytes: those of the chunk itself.
void require_whole(std::vector<std::byte> data, const std::vector<int>& filters, std::uint32_t left_out, std::size_t bytes,
                   const std::string& what) {
  constexpr std::size_t checksum_bytes = 4;  // of fletcher32
  const auto checksums = static_cast<std::size_t>(std::count(filters.begin(), filters.end(), H5Z_FILTER_FLETCHER32));
  for (std::size_t i = filters.size(); i-- > 0;) {
    if (((left_out >> i) & 1U) != 0) continue;
    if (filters[i] == H5Z_FILTER_FLETCHER32) {
      require_input(data.size() >= checksum_bytes, what, ": it has no checksum; the file is damaged");
      data.resize(data.size() - checksum_bytes);
    } else if (filters[i] == H5Z_FILTER_DEFLATE) {
      std::vector<std::byte> inflated(bytes + checksums * checksum_bytes);
      uLongf size = inflated.size();
      const int status = ::uncompress(zlib_bytes(inflated.data()), &size, zlib_bytes(data.data()), data.size());
      require_input(status == Z_OK, what, ": its ", data.size(), " bytes are not what deflate makes of ", bytes,
                    "; the file is damaged");
      inflated.resize(size);
      data = std::move(inflated);
    }
  }
  require_input(data.size() == bytes, what, ": ", data.size(), " bytes instead of ", bytes, "; the file is damaged");
}

}  // namespace

void require_whole_chunks(const Handle& dataset, std::uint64_t first, std::uint64_t rows, const std::string& name) {
  const Handle create(H5Dget_create_plist(dataset.id()), H5Pclose, name), type(H5Dget_type(dataset.id()), H5Tclose, name);
  const std::vector<int> filters = filters_of(create, name);
  if (filters.empty() || rows == 0) return;
  const std::vector<std::size_t> shape = shape_of(dataset, name);
  std::vector<hsize_t> chunk(shape.size());
  checked(H5Pget_chunk(create.id(), static_cast<int>(chunk.size()), chunk.data()), name);
  // In the file a string of variable length is a reference of 16 bytes; the type is that of a pointer in memory.
  const std::size_t element = H5Tis_variable_str(type.id()) > 0 ? 16 : H5Tget_size(type.id());
  const std::size_t bytes = std::accumulate(chunk.begin(), chunk.end(), element, std::multiplies<>());
  std::vector<hsize_t> at(shape.size(), 0);
  at[0] = first / chunk[0] * chunk[0];
  while (at[0] < first + rows) {
    hsize_t stored = 0;
    checked(H5Dget_chunk_storage_size(dataset.id(), at.data(), &stored), name);
    require_input(stored <= file_bytes(dataset), name, ": a chunk of ", stored, " bytes; the file is damaged");
    if (stored > 0) {  // otherwise it was never written
      std::vector<std::byte> data(stored);
      std::uint32_t left_out = 0;
      checked(H5Dread_chunk(dataset.id(), H5P_DEFAULT, at.data(), &left_out, data.data()), name);
      require_whole(std::move(data), filters, left_out, bytes, text(name, ": the chunk of row ", at[0]));
    }
    std::size_t dimension = shape.size() - 1;  // the last one counts fastest
    for (at[dimension] += chunk[dimension]; dimension > 0 && at[dimension] >= shape[dimension];) {
      at[dimension] = 0;
      --dimension;
      at[dimension] += chunk[dimension];
    }
  }
}

}  // namespace hdf5
}  // namespace shoal::io
