// SPDX-License-Identifier: Apache-2.0
// HDF5's global heap, where values of variable length lie, read by ourselves.
//
// [Note: values of variable length] HDF5 1.10 believes what it finds there: it takes an object's number for an index and its
// length for that of the buffer, so a damaged file corrupts the memory of the program that reads it. Here the library is
// only asked for the references, as they stand in the dataset or attribute, and what they point to is looked up with every
// place checked. A reference is a length (4 bytes), the address of a collection (8) and an object's number in it (4); a
// collection is "GCOL", 1, three bytes, its length (8), then objects: number (2), 6 bytes, length (8), data to a multiple
// of 8. An object with the number 0 is the free rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "shoal/base/types.hpp"

namespace shoal::io {

struct HeapReference {
  std::uint64_t bytes = 0, collection = 0;
  std::uint32_t object = 0;
};

class GlobalHeap {
 public:
  /// Fills `to` with the file's bytes from `at` on; never asked for what lies beyond the file's end.
  using Read = std::function<void(std::uint64_t at, Span<std::byte> to)>;
  GlobalHeap(std::uint64_t file_bytes, Read read) : file_bytes_(file_bytes), read_(std::move(read)) {}

  /// A reference that points to no such object is bad_input(). Collections do not overlap and a value has one owner: reading
  /// takes no more time and memory than the file is long.
  std::string value(const HeapReference& reference);

 private:
  struct Object {
    std::uint64_t offset = 0, bytes = 0;
  };
  using Collection = std::map<std::uint32_t, Object>;
  const Collection& collection(std::uint64_t address);

  std::uint64_t file_bytes_, collection_bytes_ = 0, value_bytes_ = 0;
  Read read_;
  std::map<std::uint64_t, Collection> collections_;  // by address
};

}  // namespace shoal::io
