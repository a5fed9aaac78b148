// SPDX-License-Identifier: Apache-2.0
#include "io/hdf5/global_heap.hpp"

#include <cstring>

#include "shoal/base/error.hpp"

namespace shoal::io {

namespace {

constexpr std::uint64_t header_bytes = 16;  // of a collection, and also of an object

template <typename T>
T number_at(const std::vector<std::byte>& data, std::uint64_t at) {
  T value;
  std::memcpy(&value, data.data() + at, sizeof value);
  return value;
}

}  // namespace

const GlobalHeap::Collection& GlobalHeap::collection(std::uint64_t address) {
  const auto [found, fresh] = collections_.try_emplace(address);
  if (!fresh) return found->second;
  const auto require_whole = [&](bool ok, const char* what) {
    require_input(ok, "values of variable length at byte ", address, ": ", what, "; the file is damaged");
  };
  require_whole(address <= file_bytes_ && header_bytes <= file_bytes_ - address, "beyond the end of the file");
  std::vector<std::byte> data(header_bytes);
  read_(address, data);
  require_whole(std::memcmp(data.data(), "GCOL\1", 5) == 0, "no collection begins here");
  const auto bytes = number_at<std::uint64_t>(data, 8);
  require_whole(bytes >= header_bytes && bytes <= file_bytes_ - address, "longer than the file");
  require_whole(bytes <= file_bytes_ - collection_bytes_, "overlaps others");
  collection_bytes_ += bytes;
  data.resize(bytes);
  read_(address, data);
  for (std::uint64_t at = header_bytes; bytes - at >= header_bytes;) {
    const auto number = number_at<std::uint16_t>(data, at);
    const auto length = number_at<std::uint64_t>(data, at + 8);
    if (number == 0) break;
    require_whole(length <= bytes - at - header_bytes, "an object leaves its collection");
    require_whole(found->second.try_emplace(number, Object{address + at + header_bytes, length}).second,
                  "two objects with the same number");
    const std::uint64_t step = header_bytes + (length + 7) / 8 * 8;
    if (step > bytes - at) break;
    at += step;
  }
  return found->second;
}

std::string GlobalHeap::value(const HeapReference& reference) {
  if (reference.bytes == 0) return {};
  const Collection& objects = collection(reference.collection);
  const auto found = objects.find(reference.object);
  require_input(found != objects.end() && reference.bytes <= found->second.bytes, "a value of ", reference.bytes,
                " bytes at byte ", reference.collection, ", object ", reference.object,
                ": there is no such object; the file is damaged");
  require_input(reference.bytes <= file_bytes_ - value_bytes_,
                "values of variable length are together longer than the file");
  value_bytes_ += reference.bytes;
  std::string value(reference.bytes, '\0');
  read_(found->second.offset, std::as_writable_bytes(Span<char>(value)));
  return value;
}

}  // namespace shoal::io
