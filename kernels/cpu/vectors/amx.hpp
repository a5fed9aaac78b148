// SPDX-License-Identifier: Apache-2.0
// Products of blocks of bf16 matrices, by AMX's tile registers.
#pragma once

#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__AVX512BW__) && \
    defined(__AVX512DQ__) && defined(__linux__)
#define SHOAL_AMX
#endif

#include "kernels/cpu/vectors/instructions.hpp"

namespace shoal::kernels::amx {

/// Returns true if kernels use AMX: this build has the code, and this process may use the instructions.
inline bool available() {
#if defined(SHOAL_AMX)
  return may_use(Instructions::tiles);
#else
  return false;
#endif
}

}  // namespace shoal::kernels::amx

#if defined(SHOAL_AMX)
#include <cstddef>

#include "kernels/cpu/vectors/simd.hpp"
#include "kernels/cpu/vectors/tile_registers.hpp"
#include "kernels/cpu/vectors/words.hpp"
#include "shoal/base/types.hpp"

namespace shoal::kernels::amx {

/// Rows and columns of a block of the result: two tiles by two.
inline constexpr std::size_t block = 32;

/// The two tiles of a factor at each step of the sum. row, tile and step are distances in bytes: between the rows of a tile,
/// between the two tiles, and between steps. A row of a left factor's tile holds 32 elements of the sum. A row of a right
/// factor's tile holds 16 columns, as words of two elements that are neighbours in the sum.
struct Factor {
  const void* data;
  std::size_t row, tile, step;
};
struct Result {
  float* data;
  std::size_t row;  ///< in floats
};

// The sums of a block are in tiles 0 to 3, row by row.
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

/// c = or += a b for a block of 32 x 32 floats, summed over `steps` times 32 elements. between() is called once in each
/// step, for work that the processor can do while it multiplies.
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
