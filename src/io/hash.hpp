// SPDX-License-Identifier: Apache-2.0
// XXH3 (Collet, xxHash 0.8), 64 bits: the only file that includes it is hash.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "shoal/base/types.hpp"
#include "shoal/io/hexadecimal.hpp"

namespace shoal::io {

std::uint64_t xxh3(Span<const std::byte> data, std::uint64_t seed = 0);

/// The number that hexadecimal() wrote. Any other text is bad_input(), naming `what`.
std::uint64_t parse_hexadecimal(const std::string& value, const std::string& what);

/// Elements of a piece: what a checksum is a sum over. Tensors and shards start on pieces.
inline constexpr std::size_t checksum_piece = 16;

/// Sum modulo 2^64 of xxh3(piece, seed = the piece's index) over pieces; `first` is the index of the first one.
std::uint64_t sum_of_pieces(Span<const float> values, std::uint64_t first);

/// Sum modulo 2^64 of xxh3(piece, seed = the piece's index) over pieces of 64 bytes of data that come part by part; the last
/// piece is filled up with zeros.
class PieceSum {
 public:
  void update(Span<const std::byte> data);
  std::uint64_t value() const;

 private:
  std::array<std::byte, checksum_piece * sizeof(float)> piece_{};
  std::size_t filled_ = 0;
  std::uint64_t index_ = 0, sum_ = 0;
};

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
