// SPDX-License-Identifier: Apache-2.0
// Checks of attributes and datasets before a byte of them is read. A file may come from anywhere, and HDF5 copies as many
// bytes as the file claims to have, even beyond the end of the reader's buffer. Used within io/; other folders use
// io/hdf5.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shoal/io/hdf5.hpp"

namespace shoal::io::hdf5 {

/// Limits: attributes of one object, bytes of one string, strings of one list. No file of ours comes near them.
inline constexpr std::size_t most_attributes = 1U << 16U, longest_text = 1U << 26U, most_texts = 1U << 24U;

/// Size in bytes of the file that contains an object.
std::uint64_t file_bytes(const Handle& object);
/// bad_input() unless the attribute or dataset has exactly one element.
void require_one(const Handle& space, const std::string& what);
/// The numbers of the filters (H5Z_FILTER_...) of a dataset with these creation properties, in their order.
std::vector<int> filters_of(const Handle& create, const std::string& name);
/// bad_input() unless a dataset's elements are stored in this file, not in another one, and take no more bytes than the file
/// has. A chunk may have at most 1 GiB. The filters shuffle, deflate and fletcher32 are allowed, and no others: HDF5 would
/// look for programs that provide them. Deflated elements may be longer once they are read, as far as deflate can make them.
/// Chunks::all: then inflates every chunk to see that it is whole (require_whole_chunks() in packed_chunk.hpp). later:
/// whoever reads the chunks does so.
enum class Chunks { all, later };
void require_stored(const Handle& dataset, const std::string& name, Chunks chunks = Chunks::all);

/// Reads `count` elements of variable length, strings or bytes, as described in src/io/hdf5/global_heap.hpp. fetch: reads
/// the object's elements into memory, as the HDF5 type that it is given.
using Fetch = int (*)(Id object, Id type, void* data);
std::vector<std::string> variable_values(const Handle& object, Fetch fetch, std::size_t count, const std::string& name);
/// The strings of an attribute or dataset, of variable or fixed length. type: the type of the elements in the file.
std::vector<std::string> text_values(const Handle& object, const Handle& type, Fetch fetch, std::size_t count,
                                     const std::string& name);

}  // namespace shoal::io::hdf5
