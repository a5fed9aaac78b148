// SPDX-License-Identifier: Apache-2.0
// XXH3 (Collet, xxHash 0.8), 64 bits: the only file that includes it is hash.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "shoal/base/types.hpp"

namespace shoal::io {

std::uint64_t xxh3(Span<const std::byte> data, std::uint64_t seed = 0);

/// Elements of a piece: what a checksum is a sum over. Tensors and shards start on pieces.
inline constexpr std::size_t checksum_piece = 16;

/// Sum modulo 2^64 of xxh3(piece, seed = the piece's index) over pieces; `first` is the index of the first one.
std::uint64_t sum_of_pieces(Span<const float> values, std::uint64_t first);

/// Of data that come part by part.
class Hash {
 public:
  Hash();
  ~Hash();
  void update(Span<const std::byte> data);
  std::uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shoal::io
