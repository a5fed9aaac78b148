// SPDX-License-Identifier: Apache-2.0
// Products of small matrices of floats in a team's scratch memory. A thread computes a block of the result at a time, and
// holds its sums in registers: on a CPU as many as it has vector registers for, on a GPU a few.
#pragma once

#include <cstddef>

#include "kernels/portable/launch.hpp"
#include "kernels/rules/number.hpp"

namespace shoal::kernels::portable {

/// The rows of a result are a multiple of row_step, its columns a multiple of column_step: callers pad their matrices.
inline constexpr std::size_t row_step = 8, column_step = 16;

#if defined(__AVX512F__)
inline constexpr std::size_t cpu_rows = 8, cpu_columns = 32;  // half of 32 registers of sixteen floats
#else
inline constexpr std::size_t cpu_rows = 4, cpu_columns = 16;  // half of 16 registers of eight, or of 32 of four
#endif
inline constexpr std::size_t block_rows = on_host ? cpu_rows : 4, block_columns = on_host ? cpu_columns : 4;
static_assert(row_step % block_rows == 0 && (column_step % block_columns == 0 || block_columns == 2 * column_step));

/// A: element k of row r is data[r * row + k * step].
struct Left {
  const float* data;
  std::size_t row, step;
};
/// B: element k of column c is data[k * step + c].
struct Right {
  const float* data;
  std::size_t step;
};
/// C: the element in row r and column c is data[r * row + c].
struct Result {
  float* data;
  std::size_t row;
};

/// The rows and columns of a block of C.
struct Block {
  Range rows, columns;
};

/// The first value of all sums of a product that does not add to C.
struct Zero {
  SHOAL_FUNCTION float operator()(std::size_t, std::size_t) const { return 0.0F; }
};

/// The first values of the sums of a product that adds to C.
struct Present {
  Result c;
  SHOAL_FUNCTION float operator()(std::size_t row, std::size_t column) const { return c.data[row * c.row + column]; }
};

// GCC makes vectors of the loops over a block, and holds them in registers, only if it unrolls the loop over rows and does
// not inline the function.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#define SHOAL_BLOCK inline __attribute__((noinline))
#define SHOAL_UNROLL_ROWS _Pragma("GCC unroll 8")
#else
#define SHOAL_BLOCK SHOAL_FUNCTION
#define SHOAL_UNROLL_ROWS _Pragma("unroll")
#endif

/// One block of tile_product() with this number of columns.
template <std::size_t columns, class Initial>
SHOAL_BLOCK void block_product(const Block& block, const Left& a, const Right& b, const Result& c, Range terms,
                               const Initial& initial) {
  float sums[block_rows][columns];
  for (std::size_t i = 0; i < block_rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) sums[i][j] = initial(block.rows.begin + i, block.columns.begin + j);
  }
  const float* const left = a.data + block.rows.begin * a.row;
  const float* const right = b.data + block.columns.begin;
  for (std::size_t k = terms.begin; k < terms.end; ++k) {
    SHOAL_UNROLL_ROWS
    for (std::size_t i = 0; i < block_rows; ++i) {
      const float x = left[i * a.row + k * a.step];
      for (std::size_t j = 0; j < columns; ++j) sums[i][j] = rules::Number<float>::fma(x, right[k * b.step + j], sums[i][j]);
    }
  }
  float* const result = c.data + block.rows.begin * c.row + block.columns.begin;
  for (std::size_t i = 0; i < block_rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) result[i * c.row + j] = sums[i][j];
  }
}

/// C = initial + A B for `rows` rows and `columns` columns. Each element of C is computed as initial(row, column), to which
/// its terms are added one after another, with increasing k: so it depends neither on the blocks nor on the number of
/// threads. terms(block) is the range of k whose terms some element of the block needs; the other ones must be zero. Does
/// not wait for the other threads.
template <class Terms, class Initial>
SHOAL_FUNCTION void tile_product(const Team& team, std::size_t rows, std::size_t columns, const Left& a, const Right& b,
                                 const Result& c, const Terms& terms, const Initial& initial) {
  const std::size_t across = (columns + block_columns - 1) / block_columns, blocks = rows / block_rows * across;
  for (std::size_t i = team.thread(); i < blocks; i += team.threads()) {
    const std::size_t row = i / across * block_rows, column = i % across * block_columns;
    if (columns - column >= block_columns) {
      const Block block{{row, row + block_rows}, {column, column + block_columns}};
      block_product<block_columns>(block, a, b, c, terms(block), initial);
    } else {
      constexpr std::size_t narrow = block_columns < column_step ? block_columns : column_step;
      const Block block{{row, row + block_rows}, {column, column + narrow}};
      block_product<narrow>(block, a, b, c, terms(block), initial);
    }
  }
}

}  // namespace shoal::kernels::portable
