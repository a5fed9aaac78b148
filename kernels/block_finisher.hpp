// SPDX-License-Identifier: Apache-2.0
// From a block's sums to C, a few rows at a time, so that it can be done while the next block is multiplied.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "simd.hpp"
#include "words.hpp"

namespace shoal::kernels {

/// A block of C = its sums, + bias, + what is added. Where it is transposed (floats without bias alone), the sums' rows are
/// C's columns; rows and columns are the sums'.
template <typename T, typename R>
struct Place {
  R* c;
  std::size_t stride;
  std::size_t rows, columns;
  const T* bias;   ///< of these columns; may be null
  const R* added;  ///< of the block, of C's stride; may be null, or c
  bool transposed;
};

/// block_columns: floats between the sums' rows.
template <typename T, typename R, std::size_t block_columns>
class BlockFinisher {
 public:
  /// What was begun before must be finished.
  void begin(const float* sums, const Place<T, R>& place) {
    sums_ = sums;
    place_ = place;
    left_ = place.rows;
    due_ = 0;
    const bool whole =
        (place.transposed ? place.rows % simd::width == 0 : place.columns == block_columns) && place.added != place.c;
    for (std::size_t v = 0; v < vectors; ++v) {
      const std::size_t column = v * simd::width;
      bias_[v] = place.bias == nullptr || column >= place.columns
                     ? simd::Floats{}
                     : simd::load(place.bias + column, std::min(simd::width, place.columns - column));
    }
    streams_ = whole && reinterpret_cast<std::uintptr_t>(place.c) % line == 0 && place.stride * sizeof(R) % line == 0;
  }

  SHOAL_INLINE void some(std::size_t rows) {
    if constexpr (std::is_same_v<R, float>) {
      if (place_.transposed) return turn(rows);
    }
    for (; left_ > 0 && rows > 0; --left_, --rows, sums_ += block_columns, advance(place_.stride)) {
      if (streams_) {
        stream();
      } else {
        write();
      }
    }
  }
  SHOAL_INLINE void all() { some(left_); }

 private:
  static constexpr std::size_t line = 64, vectors = block_columns / simd::width;

  SHOAL_INLINE simd::Floats value(std::size_t i) const { return simd::load(sums_ + i) + bias_[i / simd::width]; }

  SHOAL_INLINE simd::Floats plus_added(std::size_t i) const {
    return place_.added == nullptr ? value(i) : value(i) + simd::load(place_.added + i);
  }
  SHOAL_INLINE void advance(std::size_t elements) {
    place_.c += elements;
    if (place_.added != nullptr) place_.added += elements;
  }

  SHOAL_INLINE void write() const {
    simd::for_vectors(place_.columns, [this](std::size_t i, auto part) {
      simd::Floats v = value(i);
      if (place_.added != nullptr) v += simd::load(place_.added + i, part);
      simd::store(place_.c + i, v, part);
    });
  }

  /// Whole lines of C go by the caches: they are not read first, and what lies in the caches stays.
  SHOAL_INLINE void stream() const {
    for (std::size_t i = 0; i < block_columns; i += line / sizeof(R)) {
      if constexpr (std::is_same_v<R, float>) {
        simd::stream(place_.c + i, plus_added(i));
      } else {
        simd::stream(place_.c + i, plus_added(i), plus_added(i + simd::width));
      }
    }
  }

  /// Sixteen rows at a time.
  void turn(std::size_t rows) {
    due_ += rows;
    while (left_ > 0 && due_ >= std::min(left_, simd::width)) {
      const std::size_t lanes = std::min(left_, simd::width);
      for (std::size_t column = 0; column < place_.columns; column += simd::width) {
        std::array<Words, simd::width> block;
        for (std::size_t r = 0; r < simd::width; ++r) {
          block[r] = std::bit_cast<Words>(simd::load(sums_ + r * block_columns + column));
        }
        transpose_16x16(block);
        for (std::size_t i = 0; i < std::min(simd::width, place_.columns - column); ++i) {
          put((column + i) * place_.stride, std::bit_cast<simd::Floats>(block[i]), lanes);
        }
      }
      sums_ += simd::width * block_columns;
      advance(lanes);
      left_ -= lanes;
      due_ -= lanes;
    }
  }
  SHOAL_INLINE void put(std::size_t at, simd::Floats v, std::size_t lanes) const {
    if (place_.added != nullptr) v += simd::load(place_.added + at, lanes);
    if (streams_) return simd::stream(place_.c + at, v);
    simd::store(place_.c + at, v, lanes);
  }

  const float* sums_ = nullptr;
  Place<T, R> place_{};
  std::size_t left_ = 0, due_ = 0;  // rows; of those, asked for but not done
  bool streams_ = false;
  std::array<simd::Floats, vectors> bias_{};
};

}  // namespace shoal::kernels
