// SPDX-License-Identifier: Apache-2.0
// Products of blocks of bf16 by tile registers.
#pragma once

#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__AVX512BW__) && \
    defined(__AVX512DQ__) && defined(__linux__)
#define SHOAL_AMX
#endif

#include "instructions.hpp"

namespace shoal::kernels::amx {

/// Whether kernels use tiles: this build has them, and this process may use them.
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

#include "shoal/base/types.hpp"
#include "simd.hpp"
#include "tile_registers.hpp"
#include "words.hpp"

namespace shoal::kernels::amx {

/// Products below are of blocks of two tiles by two.
inline constexpr std::size_t block = 32;

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
