// SPDX-License-Identifier: Apache-2.0
// What is asked of attributes and datasets before a byte of them is read: a file may come from anywhere, and HDF5 copies as
// much as the file says, wherever it is told to. Within io/; what others need is in io/hdf5.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shoal/io/hdf5.hpp"

namespace shoal::io::hdf5 {

/// Attributes of one object, characters of one string, strings of one list: no file of ours comes near.
inline constexpr std::size_t most_attributes = 1U << 16U, longest_text = 1U << 26U, most_texts = 1U << 24U;

/// How long the file is in which an object lies.
std::uint64_t file_bytes(const Handle& object);
/// bad_input() unless the attribute or dataset has one element.
void require_one(const Handle& space, const std::string& what);
/// bad_input() unless a dataset's elements are in the file: stored, not longer than the file, not in other files. Those of a
/// compressed one can be more; a chunk is at most 1 GiB.
void require_stored(const Handle& dataset, const std::string& name);

/// The values of `count` elements of strings or of bytes of variable length (`type`, as the file has them), that `read`
/// fetches in the memory type that it is given. Read as io/global_heap.hpp says.
using Fetch = int (*)(Id object, Id type, void* data);
std::vector<std::string> variable_values(const Handle& object, Fetch fetch, std::size_t count, const std::string& name);
/// The strings of an attribute or dataset, of variable or of fixed length.
std::vector<std::string> text_values(const Handle& object, const Handle& type, Fetch fetch, std::size_t count,
                                     const std::string& name);

}  // namespace shoal::io::hdf5
