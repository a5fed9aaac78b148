// SPDX-License-Identifier: Apache-2.0
// The epilogue of a blocked product: writes a tile of C from its sums, a few rows at a time, so that the processor can do it
// while it multiplies the next tile.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/vectors/simd.hpp"
#include "kernels/cpu/vectors/words.hpp"

namespace shoal::kernels {

/// A tile of C, to be written as C = sums [+ bias] [+ added]. rows and columns are those of the sums. If `transposed` (only
/// for results in float without bias), row i of the sums is column i of C.
template <typename T, typename R>
struct OutputTile {
  R* c;
  std::size_t stride;
  std::size_t rows, columns;
  const T* bias;   ///< of these columns; may be null
  const R* added;  ///< the tile's part of the added matrix, which has C's stride; may be null or c
  bool transposed;
};

/// Prefetches what is added to a tile.
template <typename T, typename R>
SHOAL_INLINE void prefetch_added(const OutputTile<T, R>& tile) {
  if (tile.added == nullptr) return;
  for (std::size_t row = 0; row < tile.rows; ++row) {
    for (std::size_t i = 0; i < tile.columns; i += 64 / sizeof(R)) __builtin_prefetch(tile.added + row * tile.stride + i);
  }
}

/// row_size: floats from one row of the sums to the next, and the most columns of a tile.
template <typename T, typename R, std::size_t row_size>
class Epilogue {
 public:
  /// Begins a tile. All rows of the tile before must have been written.
  void begin(const float* sums, const OutputTile<T, R>& tile) {
    sums_ = sums;
    tile_ = tile;
    left_ = tile.rows;
    due_ = 0;
    const bool whole = (tile.transposed ? tile.rows % simd::width == 0 : tile.columns == row_size) && tile.added != tile.c;
    for (std::size_t v = 0; v < vectors; ++v) {
      const std::size_t column = v * simd::width;
      bias_[v] = tile.bias == nullptr || column >= tile.columns
                     ? simd::Floats{}
                     : simd::load(tile.bias + column, std::min(simd::width, tile.columns - column));
    }
    streams_ = row_size % in_line == 0 && whole && reinterpret_cast<std::uintptr_t>(tile.c) % line == 0 &&
               tile.stride * sizeof(R) % line == 0;
  }

  /// Writes up to `rows` more rows of the tile. A transposed tile is written when sixteen rows have been asked for.
  SHOAL_INLINE void write_some(std::size_t rows) {
    if constexpr (std::is_same_v<R, float>) {
      if (tile_.transposed) return write_transposed(rows);
    }
    for (; left_ > 0 && rows > 0; --left_, --rows, sums_ += row_size, advance(tile_.stride)) {
      if (streams_) {
        stream();
      } else {
        write();
      }
    }
  }
  SHOAL_INLINE void write_rest() { write_some(left_); }

 private:
  static constexpr std::size_t line = 64, in_line = line / sizeof(R), vectors = row_size / simd::width;

  SHOAL_INLINE simd::Floats value(std::size_t i) const { return simd::load(sums_ + i) + bias_[i / simd::width]; }

  SHOAL_INLINE simd::Floats plus_added(std::size_t i) const {
    return tile_.added == nullptr ? value(i) : value(i) + simd::load(tile_.added + i);
  }
  SHOAL_INLINE void advance(std::size_t elements) {
    tile_.c += elements;
    if (tile_.added != nullptr) tile_.added += elements;
  }

  SHOAL_INLINE void write() const {
    simd::for_vectors(tile_.columns, [this](std::size_t i, auto part) {
      simd::Floats v = value(i);
      if (tile_.added != nullptr) v += simd::load(tile_.added + i, part);
      simd::store(tile_.c + i, v, part);
    });
  }

  /// Writes whole cache lines of C past the caches (non-temporal stores): the lines need not be read first, and do not
  /// displace the packed operands.
  SHOAL_INLINE void stream() const {
    for (std::size_t i = 0; i + in_line <= row_size; i += in_line) {
      if constexpr (std::is_same_v<R, float>) {
        simd::stream(tile_.c + i, plus_added(i));
      } else {
        simd::stream(tile_.c + i, plus_added(i), plus_added(i + simd::width));
      }
    }
  }

  /// Transposes sixteen rows of the sums at a time.
  void write_transposed(std::size_t rows) {
    due_ += rows;
    while (left_ > 0 && due_ >= std::min(left_, simd::width)) {
      const std::size_t lanes = std::min(left_, simd::width);
      for (std::size_t column = 0; column < tile_.columns; column += simd::width) {
        const Tile block = load_transposed([&](std::size_t r) { return load_words(sums_ + r * row_size + column); });
        for (std::size_t i = 0; i < std::min(simd::width, tile_.columns - column); ++i) {
          put((column + i) * tile_.stride, simd::cast<simd::Floats>(block[i]), lanes);
        }
      }
      sums_ += simd::width * row_size;
      advance(lanes);
      left_ -= lanes;
      due_ -= lanes;
    }
  }
  SHOAL_INLINE void put(std::size_t at, simd::Floats v, std::size_t lanes) const {
    if (tile_.added != nullptr) v += simd::load(tile_.added + at, lanes);
    if (streams_) return simd::stream(tile_.c + at, v);
    simd::store(tile_.c + at, v, lanes);
  }

  const float* sums_ = nullptr;
  OutputTile<T, R> tile_{};
  std::size_t left_ = 0;  // rows that are not written yet
  std::size_t due_ = 0;   // of a transposed tile: rows that write_some() was asked for and has not written yet
  bool streams_ = false;
  std::array<simd::Floats, vectors> bias_{};
};

}  // namespace shoal::kernels
