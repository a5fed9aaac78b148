// SPDX-License-Identifier: Apache-2.0
#include "io/files/hash.hpp"

#ifdef __AVX512F__
#define XXH_VECTOR XXH_AVX2  // GCC 12 warns in its own AVX-512 header; pieces are too short for either to matter
#endif
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>

#include "shoal/base/error.hpp"

#include "shoal/base/mpi_free.hpp"

namespace shoal::io {

static_assert(std::endian::native == std::endian::little, "checksums and seals are defined on little-endian machines");

struct Hash::State {
  XXH3_state_t state;
};

std::uint64_t xxh3(Span<const std::byte> data, std::uint64_t seed) {
  return XXH3_64bits_withSeed(data.data(), data.size(), seed);
}

std::uint64_t sum_of_pieces(Span<const float> values, std::uint64_t first) {
  const MpiFree mpi_free;  // hashing gigabytes takes seconds
  std::uint64_t sum = 0;
  const float* piece = values.data();
  const float* const end = piece + values.size();
  for (; end - piece >= static_cast<std::ptrdiff_t>(checksum_piece); piece += checksum_piece) {
    sum += XXH3_64bits_withSeed(piece, checksum_piece * sizeof(float), first++);
  }
  if (piece != end) sum += XXH3_64bits_withSeed(piece, static_cast<std::size_t>(end - piece) * sizeof(float), first);
  return sum;
}

std::string hexadecimal(std::uint64_t hash) {
  char buffer[17];
  std::snprintf(buffer, sizeof buffer, "%016llx", static_cast<unsigned long long>(hash));
  return buffer;
}

std::uint64_t parse_hexadecimal(const std::string& value, const std::string& what) {
  const bool valid = value.size() == 16 && value.find_first_not_of("0123456789abcdef") == std::string::npos;
  require_input(valid, what, ": checksum '", value, "' is not a hexadecimal number of 16 digits");
  return std::strtoull(value.c_str(), nullptr, 16);
}

void PieceSum::update(Span<const std::byte> data) {
  while (!data.empty()) {
    const std::size_t bytes = std::min(piece_.size() - filled_, data.size());
    std::copy_n(data.begin(), bytes, piece_.begin() + static_cast<std::ptrdiff_t>(filled_));
    filled_ += bytes;
    data = data.subspan(bytes);
    if (filled_ < piece_.size()) return;
    sum_ += xxh3(piece_, index_++);
    filled_ = 0;
  }
}

std::uint64_t PieceSum::value() const {
  if (filled_ == 0) return sum_;
  auto last = piece_;
  std::fill(last.begin() + static_cast<std::ptrdiff_t>(filled_), last.end(), std::byte{0});
  return sum_ + xxh3(last, index_);
}

Hash::Hash() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->state); }
Hash::~Hash() = default;
void Hash::update(Span<const std::byte> data) { XXH3_64bits_update(&state_->state, data.data(), data.size()); }
std::uint64_t Hash::value() const { return XXH3_64bits_digest(&state_->state); }

}  // namespace shoal::io
