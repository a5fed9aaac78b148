// SPDX-License-Identifier: Apache-2.0
// How matmul.cpp cuts a product, and the product of its smallest pieces.
#pragma once

#include <cstddef>

#include "kernels/portable/launch.hpp"
#include "kernels/rules/number.hpp"

namespace shoal::kernels::portable::product {

/// The size of the pieces.
struct Cutting {
  std::size_t rows, columns;              ///< of a tile
  std::size_t depth;                      ///< terms of each sum that are copied at a time
  std::size_t block_rows, block_columns;  ///< of a block: a thread adds to the sums of one block at a time, in registers
  std::size_t threads;                    ///< fewest threads of a team
  std::size_t gap;                        ///< floats between two strips
  std::size_t most_flops;                 ///< of a tile, and of a launch for each thread
};
#if defined(__AVX512F__)
inline constexpr std::size_t cpu_rows = 12;  // 24 of 32 registers of sixteen floats
#else
inline constexpr std::size_t cpu_rows = 3;  // 12 of 16 registers of eight floats, or 24 of 32 registers of four
#endif
// A block on a CPU has more than 16 columns, since g++ unrolls shorter loops before it could make vectors of them. The
// copies and sums of a CPU's tile fit the L2 cache, and a strip of B the L1 cache. A launch takes 15 ms at 100 GFLOP/s. On a
// GPU each thread keeps the sums of one block in its registers; the gap puts neighbouring strips into different banks of the
// scratch memory.
inline constexpr Cutting on_cpu = {.rows = 264,
                                   .columns = 256,
                                   .depth = 128,
                                   .block_rows = cpu_rows,
                                   .block_columns = 32,
                                   .threads = 1,
                                   .gap = 0,
                                   .most_flops = 1'600'000'000};
inline constexpr Cutting on_gpu = {.rows = 64,
                                   .columns = 64,
                                   .depth = 32,
                                   .block_rows = 8,
                                   .block_columns = 4,
                                   .threads = 128,
                                   .gap = 4,
                                   .most_flops = std::size_t{1} << 60U};
inline constexpr Cutting cut = on_host ? on_cpu : on_gpu;

inline constexpr std::size_t blocks_per_thread =
    parts(parts(cut.rows, cut.block_rows) * parts(cut.columns, cut.block_columns), cut.threads);
struct Block {
  float sums[cut.block_rows][cut.block_columns];
};

/// A line is a row of A or a column of B. A strip holds `width` lines; element k of line i is at [k * width + i].
SHOAL_FUNCTION constexpr std::size_t strip_size(std::size_t width) { return cut.depth * width + cut.gap; }
constexpr std::size_t strips_size(std::size_t lines, std::size_t width) { return parts(lines, width) * strip_size(width); }
inline constexpr std::size_t a_strip = strip_size(cut.block_rows), b_strip = strip_size(cut.block_columns);
inline constexpr std::size_t a_size = strips_size(cut.rows, cut.block_rows),
                             b_size = strips_size(cut.columns, cut.block_columns);

/// Adds the product of a strip of A and a strip of B.
SHOAL_RULE void multiply_add(std::size_t depth, const float* a, const float* b, Block& block) {
  Block held = block;  // in registers
  for (std::size_t k = 0; k < depth; ++k, a += cut.block_rows, b += cut.block_columns) {
    for (std::size_t i = 0; i < cut.block_rows; ++i) {
      for (std::size_t j = 0; j < cut.block_columns; ++j) {
        held.sums[i][j] = rules::Number<float>::fma(a[i], b[j], held.sums[i][j]);
      }
    }
  }
  block = held;
}

}  // namespace shoal::kernels::portable::product
