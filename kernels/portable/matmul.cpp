// SPDX-License-Identifier: Apache-2.0
// A team computes a tile of C. It copies a part of its rows of A and of its columns of B into scratch memory, as floats,
// adds their product to the tile's sums, and goes on to the next part. Each sum begins at zero, and its k terms are added
// one after another by fused multiply-adds. So its bits depend neither on the cutting nor on the number of threads.
#include "shoal/kernels/matmul.hpp"

#include <algorithm>

#include "kernels/common/instances.hpp"
#include "kernels/common/product_depth.hpp"
#include "kernels/portable/product_blocks.hpp"
#include "shoal/kernels/runtime.hpp"

namespace shoal::kernels {

using namespace portable;

namespace {

using namespace product;

template <typename T, typename R>
struct Product {
  MatmulInputs<T, R> in;
  Matrix<R> c;
  std::size_t k;
};

struct Tile {
  Range rows, columns;
};

/// Copies a part of some lines to strips; the lines that the last strip lacks are zero. Memory holds either the elements of
/// a line side by side, or those of all lines with the same k.
template <std::size_t width, typename T>
SHOAL_FUNCTION void copy_lines(const Team& team, const Matrix<const T>& from, bool lines_are_rows, Range lines, Range terms,
                               float* strip) {
  for (std::size_t first = lines.begin; first < lines.end; first += width, strip += strip_size(width)) {
    const std::size_t here = smaller(width, lines.end - first), stride = from.stride;
    if (lines_are_rows) {
      const T* const data = from.data + first * stride + terms.begin;
      team.each_pair(terms.size(), width, [=](std::size_t k, std::size_t i) {
        strip[k * width + i] = i < here ? static_cast<float>(data[i * stride + k]) : 0.0F;
      });
    } else {
      const T* const data = from.data + terms.begin * stride + first;
      team.each_pair(terms.size(), width, [=](std::size_t k, std::size_t i) {
        strip[k * width + i] = i < here ? static_cast<float>(data[k * stride + i]) : 0.0F;
      });
    }
  }
}

/// C = sums [+ bias] [+ added] for a block that begins in this row and column.
template <typename T, typename R>
SHOAL_FUNCTION void write_block(const Product<T, R>& p, std::size_t row, std::size_t column, const Block& block) {
  const std::size_t columns = p.c.columns - column;
  for (std::size_t i = 0; i < cut.block_rows; ++i) {
    if (row + i >= p.c.rows) continue;
    const std::size_t at = (row + i) * p.c.stride + column;
    SHOAL_INDEPENDENT
    for (std::size_t j = 0; j < cut.block_columns; ++j) {
      if (j >= columns) continue;
      float value = block.sums[i][j];
      if (p.in.bias != nullptr) value += static_cast<float>(p.in.bias[column + j]);
      if (p.in.added != nullptr) value += static_cast<float>(p.in.added[at + j]);
      p.c.data[at + j] = R(value);
    }
  }
}

/// Calls f(n, row, column) for each block of a thread, where n counts them. The next block is the one below, so that a
/// thread uses a strip of B several times.
template <class F>
SHOAL_FUNCTION void each_block(const Team& team, const Tile& tile, const F& f) {
  const std::size_t down = parts(tile.rows.size(), cut.block_rows);
  const std::size_t blocks = down * parts(tile.columns.size(), cut.block_columns);
  for (std::size_t n = 0; n < blocks_per_thread; ++n) {
    const std::size_t block = team.thread() + n * team.threads();
    if (block < blocks) f(n, block % down, block / down);
  }
}

template <typename T, typename R>
SHOAL_FUNCTION void compute(const Product<T, R>& p, const Tile& tile, const Team& team) {
  auto* const a = reinterpret_cast<float*>(team.scratch());
  float* const b = a + a_size;
  Block own[blocks_per_thread] = {};
  for (std::size_t k = 0; k < p.k; k += cut.depth) {
    const Range terms = {k, smaller(k + cut.depth, p.k)};
    copy_lines<cut.block_rows>(team, p.in.a, p.in.transpose_a == Transpose::no, tile.rows, terms, a);
    copy_lines<cut.block_columns>(team, p.in.b, p.in.transpose_b == Transpose::yes, tile.columns, terms, b);
    team.sync();
    each_block(team, tile, [&](std::size_t n, std::size_t i, std::size_t j) {
      multiply_add(terms.size(), a + i * a_strip, b + j * b_strip, own[n]);
    });
    team.sync();
  }
  each_block(team, tile, [&](std::size_t n, std::size_t i, std::size_t j) {
    write_block(p, tile.rows.begin + i * cut.block_rows, tile.columns.begin + j * cut.block_columns, own[n]);
  });
}

/// Rows of a tile: fewer if otherwise one thread would take too long for it, or another would have none.
std::size_t tile_rows(const MatmulShape& s, std::size_t threads) {
  const std::size_t in_time = cut.most_flops / (2 * cut.columns * s.k) / cut.block_rows * cut.block_rows;
  const std::size_t for_all = round_up(parts(s.m * parts(s.n, cut.columns), threads), cut.block_rows);
  return std::clamp(std::min(in_time, for_all), cut.block_rows, cut.rows);
}

}  // namespace

template <typename T, typename R>
void matmul(const char* label, const MatmulInputs<T, R>& in, Matrix<R> c, Span<std::byte> /*workspace*/) {
  const std::size_t m = c.rows, n = c.columns, k = depth_of(label, in, c);
  require_no_activation(label, in);
  const auto workers = static_cast<std::size_t>(threads());
  const std::size_t rows = tile_rows({.m = m, .n = n, .k = k}, workers);
  const std::size_t down = parts(m, rows), tiles = down * parts(n, cut.columns);
  const std::size_t per_launch = std::max<std::size_t>(1, cut.most_flops / (2 * rows * cut.columns * k)) * workers;
  const Product<T, R> product{in, c, k};
  for (std::size_t first = 0; first < tiles; first += per_launch) {
    for_teams(
        label, std::min(per_launch, tiles - first), (a_size + b_size) * sizeof(float),
        SHOAL_LAMBDA(std::size_t item, const Team& team) {
          const std::size_t row = (first + item) % down * rows, column = (first + item) / down * cut.columns;
          compute(product, {{row, smaller(row + rows, m)}, {column, smaller(column + cut.columns, n)}}, team);
        });
  }
}

template <typename T, typename R>
std::size_t matmul_workspace_bytes(const MatmulShape& /*shape*/) {
  return 0;
}

SHOAL_FOR_PRODUCT_TYPES(matmul);
SHOAL_FOR_PRODUCT_TYPES(matmul_workspace_bytes);

}  // namespace shoal::kernels
