// SPDX-License-Identifier: Apache-2.0
// Products of matrices of any type by AVX2's fused multiply-adds of floats: the micro-kernel for blocked_product.hpp.
// Packing widens operands of 16 bits, so that their products cost as much as those of floats. An element of C is one chain
// of multiply-adds over KC elements of the sum, and continues from one KC to the next, so that its bits do not depend on KC.
#include <array>
#include <cstring>

#include "kernels/cpu/product/blocked_product.hpp"
#include "kernels/cpu/product/floats.hpp"
#include "shoal/base/error.hpp"

namespace shoal::kernels {

#if defined(SHOAL_FLOATS)
namespace {

/// Half of what simd.hpp calls a vector: one register of AVX2.
constexpr std::size_t lanes = 8;

/// Eight 16-bit numbers as floats.
template <typename T>
SHOAL_INLINE __m256 widened(__m128i bits) {
  if constexpr (std::is_same_v<T, f16>) return _mm256_cvtph_ps(bits);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
template <typename T>
SHOAL_INLINE __m256 load_whole(const T* from) {
  if constexpr (std::is_same_v<T, float>) {
    return _mm256_loadu_ps(from);
  } else {
    return widened<T>(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
}
/// Loads six elements, as four and two, and sets the other two lanes to zero.
template <typename T>
SHOAL_INLINE __m256 load_six(const T* from) {
  if constexpr (std::is_same_v<T, float>) {
    const __m128i two = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + 4));
    return _mm256_set_m128(_mm_castsi128_ps(two), _mm_loadu_ps(from));
  } else {
    int two = 0;
    std::memcpy(&two, from + 4, sizeof two);
    return widened<T>(_mm_insert_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)), two, 2));
  }
}
/// Eight elements, of which the first `valid` exist; the rest is zero.
template <typename T>
SHOAL_INLINE __m256 load_some(const T* from, std::size_t valid) {
  if (valid >= lanes) return load_whole(from);
  std::array<T, lanes> padded{};
  std::copy_n(from, valid, padded.begin());
  return load_whole(padded.data());
}

struct Square {
  __m256 row[lanes];
};

/// Transposes eight rows of eight floats: pairs of rows, then pairs of pairs, then halves of registers are exchanged.
SHOAL_INLINE Square transposed(const Square& square) {
  const auto& r = square.row;
  Square result;
  __m256 pairs[lanes], quads[lanes];
  for (std::size_t i = 0; i < lanes; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (std::size_t i = 0; i < lanes; i += 4) {
    for (std::size_t j = 0; j < 2; ++j) {
      quads[i + 2 * j] = _mm256_shuffle_ps(pairs[i + j], pairs[i + j + 2], _MM_SHUFFLE(1, 0, 1, 0));
      quads[i + 2 * j + 1] = _mm256_shuffle_ps(pairs[i + j], pairs[i + j + 2], _MM_SHUFFLE(3, 2, 3, 2));
    }
  }
  for (std::size_t i = 0; i < lanes / 2; ++i) {
    result.row[i] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x20);
    result.row[i + 4] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x31);
  }
  return result;
}

/// Packed operands hold one float for each row of A or column of B, then those of the next element of the sum. The sums take
/// 12 of the 16 registers. Blocks of other sizes made no difference beyond the noise on a Zen 3 core.
template <typename T>
struct MultiplyAdds {
  using Type = T;
  using Packed = float;
  using Scope = NoScope;
  static constexpr std::size_t rows = 6, columns = 16, step = 8, parts = 1;
  static constexpr std::size_t longest_uncut = 512, largest_kc = 384;
  static constexpr std::size_t largest_mc = 64, largest_nb = 8, a_bytes = std::size_t{256} << 10U;

  // Rows of floats could be read in place. That was slower by 3 %.
  static constexpr bool reads_rows(Transpose /*a*/, std::size_t /*k*/) { return false; }
  static constexpr bool prefetches = true;

  static void pack_a(const PackSource<T>& s, float* to) {
    // The last two of eight lanes are overwritten by the next element of the sum. Those of the last one are not stored.
    const auto put = [to](std::size_t k, __m256 values) {
      if (k + 1 < step) return _mm256_storeu_ps(to + k * rows, values);
      _mm_storeu_ps(to + k * rows, _mm256_castps256_ps128(values));
      _mm_storel_pi(reinterpret_cast<__m64*>(to + k * rows + 4), _mm256_extractf128_ps(values, 1));
    };
    if (s.k_contiguous) {
      const Square columns_of_a = transposed(lines(s, 0, rows));
      for (std::size_t k = 0; k < step; ++k) put(k, columns_of_a.row[k]);
      return;
    }
    for (std::size_t k = 0; k < step; ++k) {
      const T* const from = s.data + k * s.stride;
      put(k, k >= s.depth ? _mm256_setzero_ps() : s.count == rows ? load_six(from) : load_some(from, s.count));
    }
  }
  static void pack_b(const PackSource<T>& s, float* to) {
    for (std::size_t first = 0; first < columns; first += lanes, to += lanes) {
      const std::size_t count = s.count > first ? s.count - first : 0;
      if (s.k_contiguous) {
        const Square rows_of_b = transposed(lines(s, first, lanes));
        for (std::size_t k = 0; k < step; ++k) _mm256_storeu_ps(to + k * columns, rows_of_b.row[k]);
      } else {
        for (std::size_t k = 0; k < step; ++k) {
          _mm256_storeu_ps(to + k * columns, k < s.depth && count > 0 ? line(s, k, first, count) : _mm256_setzero_ps());
        }
      }
    }
  }

  template <Write write, class TileEpilogue>
  static SHOAL_INLINE void multiply(const float* a, const float* b, const Extent& extent, float* sums,
                                    TileEpilogue& epilogue) {
    epilogue.write_rest();
    block<write>(a, b, extent.depth, sums);
  }

 private:
  /// Eight neighbours of a line in memory, of which `valid` exist.
  static SHOAL_INLINE __m256 line(const PackSource<T>& s, std::size_t number, std::size_t first, std::size_t valid) {
    return load_some(s.data + number * s.stride + first, valid);
  }
  /// Eight lines in memory over a step; from `first + most` on they are zero.
  static SHOAL_INLINE Square lines(const PackSource<T>& s, std::size_t first, std::size_t most) {
    const std::size_t count = s.count > first ? std::min(s.count - first, most) : 0;
    Square square;
    for (std::size_t i = 0; i < lanes; ++i) {
      square.row[i] = i < count ? line(s, first + i, 0, s.depth) : _mm256_setzero_ps();
    }
    return square;
  }

  template <Write write>
  static __attribute__((noinline)) void block(const float* a, const float* b, std::size_t depth, float* sums) {
    // Without the pragmas the compiler keeps the sums on the stack, not in registers.
    __m256 sum[rows][vectors];
#pragma GCC unroll 6
    for (std::size_t r = 0; r < rows; ++r) {
#pragma GCC unroll 2
      for (std::size_t v = 0; v < vectors; ++v) {
        sum[r][v] = write == Write::add ? _mm256_loadu_ps(sums + r * columns + v * lanes) : _mm256_setzero_ps();
      }
    }
#pragma GCC unroll 4
    for (std::size_t k = 0; k < depth; ++k, a += rows, b += columns) {
      const __m256 first = _mm256_loadu_ps(b), second = _mm256_loadu_ps(b + lanes);
#pragma GCC unroll 6
      for (std::size_t r = 0; r < rows; ++r) {
        const __m256 same = _mm256_broadcast_ss(a + r);
        sum[r][0] = _mm256_fmadd_ps(same, first, sum[r][0]);
        sum[r][1] = _mm256_fmadd_ps(same, second, sum[r][1]);
      }
    }
#pragma GCC unroll 6
    for (std::size_t r = 0; r < rows; ++r) {
#pragma GCC unroll 2
      for (std::size_t v = 0; v < vectors; ++v) _mm256_storeu_ps(sums + r * columns + v * lanes, sum[r][v]);
    }
  }
  static constexpr std::size_t vectors = columns / lanes;
};

template <typename T>
std::unique_ptr<Product> make_of(const ProductKey& key) {
  if (key.result == DType::f32) return std::make_unique<BlockedProduct<MultiplyAdds<T>, float>>(key);
  return std::make_unique<BlockedProduct<MultiplyAdds<T>, T>>(key);
}

}  // namespace

std::unique_ptr<Product> make_blocked_floats(const ProductKey& key) {
  if (key.type == DType::f32) return make_of<float>(key);
  return key.type == DType::bf16 ? make_of<bf16>(key) : make_of<f16>(key);
}
#else
std::unique_ptr<Product> make_blocked_floats(const ProductKey& /*key*/) { fail("this build has no products by AVX2"); }
#endif

}  // namespace shoal::kernels
