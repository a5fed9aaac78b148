// SPDX-License-Identifier: Apache-2.0
// Advanced Matrix Extensions: eight registers of 16 x 16 floats, or of 16 rows of 32 bf16, and the product of two of them
// (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18).
#pragma once

#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__AVX512BW__) && \
    defined(__AVX512DQ__) && defined(__linux__)
#define SHOAL_AMX
#endif

namespace shoal::kernels::amx {

/// Whether this build has tiles, this process may use them (instructions.hpp), and the system lets it. Asked once, so that a
/// run has one answer.
bool available();

}  // namespace shoal::kernels::amx

#if defined(SHOAL_AMX)
#include <array>
#include <cstddef>
#include <cstdint>

#include "shoal/base/types.hpp"
#include "simd.hpp"

namespace shoal::kernels::amx {

/// Of a tile of the result, and of the sum that one product runs over.
inline constexpr std::size_t rows = 16, columns = 16, depth = 32;
/// A tile's row, and a tile whose rows follow one another.
inline constexpr std::size_t row_bytes = 64, tile_bytes = rows * row_bytes;
/// Products below are of blocks of two tiles by two.
inline constexpr std::size_t block = 32;

/// This thread's tile registers, whole, as long as it lives. Others (the matrix-product library) set up their own: so no
/// call may leave this folder in between, and what they had is gone afterwards.
class Registers {
 public:
  Registers() {
    struct alignas(64) Configuration {
      std::uint8_t palette = 1, start_row = 0;
      std::array<std::uint8_t, 14> reserved{};
      std::array<std::uint16_t, 16> row_bytes{};
      std::array<std::uint8_t, 16> rows{};
    } c;
    static_assert(sizeof c == 64);
    for (std::size_t t = 0; t < 8; ++t) {
      c.row_bytes[t] = static_cast<std::uint16_t>(amx::row_bytes);
      c.rows[t] = static_cast<std::uint8_t>(amx::rows);
    }
    asm volatile("ldtilecfg %0" ::"m"(c));
  }
  ~Registers() { asm volatile("tilerelease"); }
  Registers(const Registers&) = delete;
  Registers& operator=(const Registers&) = delete;
};

// The compilers' own macros take a register's number as text, these as a template's argument.
template <int tile>
SHOAL_INLINE void zero() {
  asm volatile("tilezero %%tmm%c0" ::"i"(tile));
}
template <int tile>
SHOAL_INLINE void load(const void* from, std::size_t row) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(row), "i"(tile) : "memory");
}
template <int tile>
SHOAL_INLINE void store(void* to, std::size_t row) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(row), "i"(tile) : "memory");
}
/// c += a b. Subnormal numbers count as zero.
template <int c, int a, int b>
SHOAL_INLINE void multiply_add() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b));
}

/// Where the two tiles of a factor stand at each step of the sum: distances in bytes between a tile's rows, between the
/// tiles, and between steps. A left tile has 32 elements of the sum in a row; a right tile has 16 columns in a row, and in
/// each of its words two elements of the sum.
struct Factor {
  const void* data;
  std::size_t row, tile, step;
};
struct Result {
  float* data;
  std::size_t row;  ///< in floats
};
enum class Write { over, add };

// A block's sums are in tiles 0 to 3, by rows.
SHOAL_INLINE void zero_block() {
  zero<0>();
  zero<1>();
  zero<2>();
  zero<3>();
}
SHOAL_INLINE void store_block(const Result& c) {
  const std::size_t row = c.row * sizeof(float);
  float* const below = c.data + rows * c.row;
  store<0>(c.data, row);
  store<1>(c.data + columns, row);
  store<2>(below, row);
  store<3>(below + columns, row);
}

/// The block c of 32 x 32 floats = or += a b, summed over `steps` of 32. between() is called once a step, for work that the
/// processor can do beside the products.
template <Write write, class Between>
SHOAL_INLINE void multiply(const Factor& a, const Factor& b, std::size_t steps, const Result& c, const Between& between) {
  if constexpr (write == Write::add) {
    const std::size_t row = c.row * sizeof(float);
    float* const below = c.data + rows * c.row;
    load<0>(c.data, row);
    load<1>(c.data + columns, row);
    load<2>(below, row);
    load<3>(below + columns, row);
  } else {
    zero_block();
  }
  const auto* left = static_cast<const std::byte*>(a.data);
  const auto* right = static_cast<const std::byte*>(b.data);
  for (std::size_t k = 0; k < steps; ++k, left += a.step, right += b.step) {
    load<4>(left, a.row);
    load<6>(right, b.row);
    multiply_add<0, 4, 6>();
    load<7>(right + b.tile, b.row);
    multiply_add<1, 4, 7>();
    load<5>(left + a.tile, a.row);
    multiply_add<2, 5, 6>();
    multiply_add<3, 5, 7>();
    between();
  }
  store_block(c);
}
template <Write write>
SHOAL_INLINE void multiply(const Factor& a, const Factor& b, std::size_t steps, const Result& c) {
  multiply<write>(a, b, steps, c, [] {});
}

}  // namespace shoal::kernels::amx
#endif
