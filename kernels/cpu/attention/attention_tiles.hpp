// SPDX-License-Identifier: Apache-2.0
// The matrix products of attention by vector instructions: registers hold the sums of a few rows of C; B is read in vectors
// and A word by word.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/cpu/attention/attention_words.hpp"
#include "shoal/base/bump_allocator.hpp"

namespace shoal::kernels::attention {

/// Rows of C that are computed at a time, and positions in a tile of a transposed operand.
inline constexpr std::size_t block_rows = 6;
inline constexpr std::size_t tile_columns = 64;

// Registers for the sums of a row. A block takes 6 x 4 of AVX-512's 32 registers, or 6 x 2 of AVX2's 16; the others are for
// B and a word of A.
inline constexpr std::size_t most_registers = std::is_same_v<Register, Floats> ? 4 : 2;
inline constexpr std::size_t register_width = sizeof(Register) / sizeof(float);

/// Words of A: word k of the sum for row r is data[r * row + k * step].
struct Left {
  const Word* data;
  std::size_t row, step;
};
/// Words of B: word k of the sum for column c is data[k * step + c].
struct Right {
  const Word* data;
  std::size_t step;
};
struct Result {
  float* data;
  std::size_t row;
};

/// c = or += a b, for block_rows rows. The structures are passed by reference: copies on the stack would be read in wider
/// parts than they were written, and such loads wait for the stores.
template <class P, std::size_t registers, Write write>
void multiply_block(const Left& left_side, const Right& right_side, std::size_t steps, const Result& c) {
  Left a = left_side;
  Right b = right_side;
  // Without the pragmas the compiler keeps the sums on the stack, not in registers.
  Register sum[block_rows][registers];
#pragma GCC unroll 6
  for (std::size_t r = 0; r < block_rows; ++r) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < registers; ++v) {
      if constexpr (write == Write::add) {
        std::memcpy(&sum[r][v], c.data + r * c.row + v * register_width, sizeof(Register));
      } else {
        sum[r][v] = Register{};
      }
    }
  }
  for (std::size_t k = 0; k < steps; ++k, a.data += a.step, b.data += b.step) {
    RegisterWords right[registers];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < registers; ++v) std::memcpy(&right[v], b.data + v * register_width, sizeof(Register));
#pragma GCC unroll 6
    for (std::size_t r = 0; r < block_rows; ++r) {
      const RegisterWords left = a.data[r * a.row] - RegisterWords{};
#pragma GCC unroll 4
      for (std::size_t v = 0; v < registers; ++v) sum[r][v] = P::multiply_add(left, right[v], sum[r][v]);
    }
  }
#pragma GCC unroll 6
  for (std::size_t r = 0; r < block_rows; ++r) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < registers; ++v) {
      std::memcpy(c.data + r * c.row + v * register_width, &sum[r][v], sizeof(Register));
    }
  }
}

/// c = or += a b, for block_rows rows and `columns` columns (a multiple of 16), summed over `steps` words.
template <class P, Write write>
SHOAL_INLINE void multiply(Left a, Right b, std::size_t steps, Result c, std::size_t columns) {
  constexpr std::size_t most = most_registers * register_width;
  for (; columns >= most; columns -= most, b.data += most, c.data += most) {
    multiply_block<P, most_registers, write>(a, b, steps, c);
  }
  switch (columns / register_width) {
    case 3: multiply_block<P, 3, write>(a, b, steps, c); break;
    case 2: multiply_block<P, 2, write>(a, b, steps, c); break;
    case 1: multiply_block<P, 1, write>(a, b, steps, c); break;
    default: break;
  }
}

// ---- operands of one head, packed and padded with zeros ------------------------------------------------------------------

enum class Access { read, write };

/// The rows of one head in a tensor.
template <typename T>
struct Rows {
  T* data;
  std::size_t count, size, stride;
  T* operator[](std::size_t row) const { return data + row * stride; }

  /// Prefetches the row that a loop over rows will reach after some more rows. The processor does not predict it, since
  /// neighbouring rows are on different pages.
  template <Access access = Access::read>
  void prefetch_after(std::size_t row) const {
    constexpr std::size_t ahead = 16, line = 64 / sizeof(T);
    if (row + ahead >= count) return;
    for (std::size_t c = 0; c < size; c += line)
      __builtin_prefetch((*this)[row + ahead] + c, access == Access::write ? 1 : 0, 2);
  }
};

/// Sizes of the packed operands of a head, which has T positions and HS channels.
template <class P>
struct VectorPacking {
  std::size_t T, HS;
  /// Channels with padding: as columns of a result, as words of a sum, and as whole vectors of such words.
  std::size_t columns() const { return round_up(HS, simd::width); }
  std::size_t words() const { return (HS + P::per_word - 1) / P::per_word; }
  std::size_t row_words() const { return round_up(words(), simd::width); }
  /// Positions with padding: a block of block_rows rows that begins at the last position ends within them. Whole vectors.
  std::size_t positions() const { return round_up(T + block_rows, simd::width); }

  std::size_t natural_size() const { return positions() * row_words(); }
  std::size_t transposed_size() const { return round_up(T, tile_columns) * words(); }
  std::size_t paired_size() const { return positions() / P::per_word * columns(); }
};

/// Layout [positions, row_words]: the channels of each position.
template <class P, typename T>
void pack_natural(const VectorPacking<P>& p, Rows<const T> rows, Word* out) {
  const std::size_t per_vector = simd::width * P::per_word;
  for (std::size_t t = 0; t < p.positions(); ++t, out += p.row_words()) {
    rows.prefetch_after(t);
    for (std::size_t w = 0; w < p.row_words(); w += simd::width) {
      const std::size_t from = w * P::per_word;
      const bool exists = t < rows.count && from < rows.size;
      store_words(out + w, exists ? P::load(rows[t] + from, std::min(per_vector, rows.size - from)) : Words{});
    }
  }
}

/// Layout [T / 64, words, 64 positions]: tiles of 64 positions, transposed, for a sum over channels.
template <class P, typename T>
void pack_transposed(const VectorPacking<P>& p, Rows<const T> rows, Word* out) {
  for (std::size_t t = 0; t < p.T; t += simd::width) {
    for (std::size_t l = 0; l < simd::width; ++l) rows.prefetch_after(t + l);
    Word* const tile = out + t / tile_columns * tile_columns * p.words() + t % tile_columns;
    for (std::size_t w = 0; w < p.words(); w += simd::width) {
      const std::size_t from = w * P::per_word;
      Tile block;
      for (std::size_t l = 0; l < simd::width; ++l) {
        block[l] = t + l < rows.count ? P::load(rows[t + l] + from, rows.size - from) : Words{};
      }
      transpose_16x16(block);
      for (std::size_t l = 0; l < std::min(simd::width, p.words() - w); ++l)
        store_words(tile + (w + l) * tile_columns, block[l]);
    }
  }
}

/// Layout [positions / per_word, columns], for a sum over positions: a word holds one channel of two neighbouring positions,
/// or of one.
template <class P, typename T>
void pack_paired(const VectorPacking<P>& p, Rows<const T> rows, Word* out) {
  if constexpr (P::per_word == 1) {
    pack_natural(p, rows, out);
  } else {
    const auto load = [&rows](std::size_t row, std::size_t channel) {
      return row < rows.count ? P::load_halves(rows[row] + channel, rows.size - channel) : Halves{};
    };
    for (std::size_t t = 0; t < p.positions(); t += 2, out += p.columns()) {
      rows.prefetch_after(t);
      rows.prefetch_after(t + 1);
      for (std::size_t c = 0; c < rows.size; c += simd::width) store_words(out + c, P::join(load(t, c), load(t + 1, c)));
    }
  }
}

}  // namespace shoal::kernels::attention
