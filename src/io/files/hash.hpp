// SPDX-License-Identifier: Apache-2.0
// XXH3 (Collet, xxHash 0.8), 64 bits. Only hash.cpp includes the library.
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

/// Number of elements of a piece: a checksum is a sum over pieces. Tensors and shards begin at the beginning of a piece.
inline constexpr std::size_t checksum_piece = 16;

/// Sum modulo 2^64 of xxh3(piece, seed = the piece's index) over the pieces of `values`; `first` is the index of the first
/// piece.
std::uint64_t sum_of_pieces(Span<const float> values, std::uint64_t first);

/// The same sum for bytes that are passed in parts of any size. A piece has 64 bytes; the last one is filled up with zeros.
class PieceSum {
 public:
  void update(Span<const std::byte> data);
  std::uint64_t value() const;

 private:
  std::array<std::byte, checksum_piece * sizeof(float)> piece_{};
  std::size_t filled_ = 0;
  std::uint64_t index_ = 0, sum_ = 0;
};

/// xxh3() of data that are passed in parts of any size.
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
