// SPDX-License-Identifier: Apache-2.0
// A part of a file that a rank writes from its memory, and what all ways of writing do with it: cut it into pieces that the
// host can read, and add up its checksum.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "io/files/hash.hpp"
#include "shoal/base/types.hpp"
#include "shoal/device/memory.hpp"

namespace shoal::io {

struct RawPart {
  std::uint64_t offset = 0;  ///< position in the file
  Span<const float> values;  ///< of the host or of the device
  std::uint64_t piece = 0;   ///< index, in the dataset, of the piece of checksum_piece elements with which the values begin
  std::uint64_t* sum = nullptr;  ///< the values' checksum is added to it while they are written; null: none is computed
};

/// Number of elements that are hashed and then written at a time, so that they are read from memory once. The pieces of a
/// device's memory begin at multiples of it, so that all devices write the same parts.
inline constexpr std::size_t write_elements = std::size_t{1} << 17U;
static_assert(write_elements % checksum_piece == 0);

/// Returns the part with these values that begins at element `first` of `part`. Only if that begins a checksum piece can the
/// part's checksum be computed.
inline RawPart part_from(const RawPart& part, std::size_t first, Span<const float> values) {
  return {part.offset + first * sizeof(float), values, part.piece + first / checksum_piece, part.sum};
}

/// Removes the first `elements` elements, or all if there are fewer, from the part and returns them.
inline RawPart cut(RawPart& part, std::size_t elements) {
  const std::size_t n = std::min(part.values.size(), elements);
  const RawPart first = part_from(part, 0, part.values.first(n));
  part = part_from(part, n, part.values.subspan(n));
  return first;
}

/// Calls use(piece) for pieces that together are the part, one after another. Their values are memory of the host: the
/// part's own, or a copy that is valid only during the call.
template <typename Use>
void for_each_piece(const RawPart& part, const Use& use) {
  // in_pieces() does not write to what it is asked to read.
  const Span<float> values(const_cast<float*>(part.values.data()), part.values.size());
  device::in_pieces(values, device::Access::read, write_elements,
                    [&](std::size_t first, Span<float> piece) { use(part_from(part, first, piece)); });
}

inline void add_checksum(const RawPart& part) {
  if (part.sum != nullptr) *part.sum += sum_of_pieces(part.values, part.piece);
}

}  // namespace shoal::io
