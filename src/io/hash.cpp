// SPDX-License-Identifier: Apache-2.0
#include "hash.hpp"

#ifdef __AVX512F__
#define XXH_VECTOR XXH_AVX2  // GCC 12 warns in its own AVX-512 header; pieces are too short for either to matter
#endif
#include <xxhash.h>

#include <algorithm>
#include <bit>

namespace shoal::io {

static_assert(std::endian::native == std::endian::little, "checksums and seals are defined on little-endian machines");

struct Hash::State {
  XXH3_state_t state;
};

std::uint64_t xxh3(Span<const std::byte> data, std::uint64_t seed) {
  return XXH3_64bits_withSeed(data.data(), data.size(), seed);
}

std::uint64_t sum_of_pieces(Span<const float> values, std::uint64_t first) {
  std::uint64_t sum = 0;
  const float* piece = values.data();
  const float* const end = piece + values.size();
  for (; end - piece >= static_cast<std::ptrdiff_t>(checksum_piece); piece += checksum_piece) {
    sum += XXH3_64bits_withSeed(piece, checksum_piece * sizeof(float), first++);
  }
  if (piece != end) sum += XXH3_64bits_withSeed(piece, static_cast<std::size_t>(end - piece) * sizeof(float), first);
  return sum;
}

Hash::Hash() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->state); }
Hash::~Hash() = default;
void Hash::update(Span<const std::byte> data) { XXH3_64bits_update(&state_->state, data.data(), data.size()); }
std::uint64_t Hash::value() const { return XXH3_64bits_digest(&state_->state); }

}  // namespace shoal::io
