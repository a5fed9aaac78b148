// SPDX-License-Identifier: Apache-2.0
// Advanced Matrix Extensions: eight registers of 16 x 16 floats, or of 16 rows of 32 bf16, and the product of two of them
// (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18). The instructions are assembler text,
// so that every build contains them. They must be used only if may_use(Instructions::tiles).
#pragma once

#if defined(__x86_64__)
#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/vectors/simd.hpp"

namespace shoal::kernels::amx {

/// Rows and columns of a tile of the result, and elements of the sum in one product.
inline constexpr std::size_t rows = 16, columns = 16, depth = 32;
/// Bytes of a row of a tile, and of a tile whose rows follow one another.
inline constexpr std::size_t row_bytes = 64, tile_bytes = rows * row_bytes;

/// Configures the tile registers of this thread, all at full size, as long as the object lives. oneDNN configures the same
/// registers for itself: so it must not be called during that time, and its configuration is lost.
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

// The compilers' intrinsics need the number of a register as a literal. Here it is a template argument.
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
/// c += a b. Subnormal numbers are treated as zero.
template <int c, int a, int b>
SHOAL_INLINE void multiply_add() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b));
}

}  // namespace shoal::kernels::amx
#endif
