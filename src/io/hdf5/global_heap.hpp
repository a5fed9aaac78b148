// SPDX-License-Identifier: Apache-2.0
// Reads values of variable length from HDF5's global heap, where HDF5 files store them, without the library.
//
// [Note: values of variable length] HDF5 1.10 does not check the heap: it uses an object's number as an index and its length
// as the length of a buffer, so a damaged file corrupts the memory of the program that reads it. Here the library reads only
// the references, as the dataset or attribute stores them; the values are looked up by this class, which checks every
// address and length. A reference has a length (4 bytes), the address of a collection (8) and the number of an object in it
// (4). A collection is "GCOL", 1, three bytes, its length (8), then objects: number (2), 6 bytes, length (8), and data
// padded to a multiple of 8. An object with the number 0 is the free space at the end.
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
  /// Fills `to` with the file's bytes from `at` on. Never called for bytes beyond the file's end.
  using Read = std::function<void(std::uint64_t at, Span<std::byte> to)>;
  GlobalHeap(std::uint64_t file_bytes, Read read) : file_bytes_(file_bytes), read_(std::move(read)) {}

  /// The value of a reference; bad_input() if there is no such object. Collections may not overlap, and all values together
  /// may not be longer than the file, which bounds the time and memory that a damaged file can cost.
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
