// SPDX-License-Identifier: Apache-2.0
// Products of fp32 matrices by AMX, which multiplies bf16 only: the micro-kernel for blocked_product.hpp. A float a is the
// sum of three bf16 numbers,
//   a = a1 + a2 + a3
// with a relative error of 2^-27, since each rounding to bf16 leaves at most 2^-9 of what it rounds. Then
//   a b = a1 b1  +  a1 b2 + a2 b1  +  a1 b3 + a2 b2 + a3 b1
// with a relative error of 2^-25: the products left out are smaller than fp32's own roundoff (Henry, Tang, Heinecke,
// "Leveraging the bfloat16 Artificial Intelligence Datatype for Higher-Precision Computations", ARITH 2019). All products
// are summed in float. For each KC elements of the sum the five small products come first and a1 b1 last, so that a sum has
// no more roundings of its own size than with fused multiply-adds of floats. Subnormal parts count as zero. If an element is
// not finite, all results that depend on it are not finite.
#include "kernels/cpu/product/blocked_product.hpp"
#include "kernels/cpu/vectors/amx.hpp"
#include "kernels/cpu/vectors/words.hpp"
#include "shoal/base/error.hpp"

namespace shoal::kernels {

#if defined(SHOAL_AMX)
namespace {

using simd::Floats, simd::Halves;

/// A step is 32 elements of the sum: for each of the three parts, two tiles of 16 rows of A, and two tiles of 16 columns of
/// B, in words of two elements that are neighbours in the sum.
struct Thirds {
  using Type = float;
  using Packed = bf16;
  using Scope = amx::Registers;
  static constexpr std::size_t rows = amx::block, columns = amx::block, step = amx::depth, parts = 3;
  // Chosen as in blocked_bf16.cpp.
  static constexpr std::size_t longest_uncut = 128, largest_kc = 128;
  static constexpr std::size_t largest_mc = 12, largest_nb = 16, a_bytes = std::size_t{2} << 20U;

  static constexpr bool reads_rows(Transpose /*a*/, std::size_t /*k*/) { return false; }
  static constexpr bool prefetches = false;

  static void pack_a(const PackSource<float>& s, bf16* to) { pack(s, s.k_contiguous ? Transpose::no : Transpose::yes, to); }
  static void pack_b(const PackSource<float>& s, bf16* to) { pack(s, s.k_contiguous ? Transpose::yes : Transpose::no, to); }

  template <Write write, class TileEpilogue>
  static SHOAL_INLINE void multiply(const bf16* a_panel, const bf16* b_panel, const Extent& extent, float* sums,
                                    TileEpilogue& epilogue) {
    const std::size_t steps = extent.steps;
    const std::size_t rows_a_step = (rows + steps - 1) / steps;
    amx::zero_block();
    for (std::size_t k = 0; k < steps; ++k) {
      const bf16 *const a = a_panel + k * step_size, *const b = b_panel + k * step_size;
      load_a(a);
      load_b(b + 2 * part_size);
      multiply_add();
      load_b(b + part_size);
      multiply_add();
      load_a(a + part_size);
      multiply_add();
      load_b(b);
      multiply_add();
      load_a(a + 2 * part_size);
      multiply_add();
      epilogue.write_some(rows_a_step);
    }
    for (std::size_t k = 0; k < steps; ++k) {
      load_a(a_panel + k * step_size);
      load_b(b_panel + k * step_size);
      multiply_add();
    }
    if constexpr (write == Write::over) {
      amx::store_block({sums, columns});
    } else {
      alignas(amx::row_bytes) std::array<float, rows * columns> chunk_sums;
      amx::store_block({chunk_sums.data(), columns});
      for (std::size_t i = 0; i < rows * columns; i += simd::width) {
        simd::store(sums + i, simd::load(sums + i) + simd::load(chunk_sums.data() + i));
      }
    }
  }

 private:
  static constexpr std::size_t tile_size = amx::tile_bytes / sizeof(bf16), part_size = 2 * tile_size,
                               step_size = parts * part_size;

  static SHOAL_INLINE void load_a(const bf16* part) {
    amx::load<4>(part, amx::row_bytes);
    amx::load<5>(part + tile_size, amx::row_bytes);
  }
  static SHOAL_INLINE void load_b(const bf16* part) {
    amx::load<6>(part, amx::row_bytes);
    amx::load<7>(part + tile_size, amx::row_bytes);
  }
  static SHOAL_INLINE void multiply_add() {
    amx::multiply_add<0, 4, 6>();
    amx::multiply_add<1, 4, 7>();
    amx::multiply_add<2, 5, 6>();
    amx::multiply_add<3, 5, 7>();
  }
  using Parts = std::array<Halves, parts>;
  static SHOAL_INLINE Parts split(Floats v) {
    Parts p;
    for (Halves& part : p) {
      part = std::bit_cast<Halves>(_mm512_cvtneps_pbh(v));
      v -= simd::widen<bf16>(part);
    }
    return p;
  }

  static void pack(const PackSource<float>& p, Transpose transpose, bf16* to) {
    for (std::size_t first = 0; first < rows; first += amx::rows, to += tile_size) {
      std::array<Tile, parts> tiles;
      for (std::size_t r = 0; r < amx::rows; ++r) {
        const Parts low = split(p.k_contiguous ? load(p, first + r, 0) : load(p, 2 * r, first));
        const Parts high = split(p.k_contiguous ? load(p, first + r, simd::width) : load(p, 2 * r + 1, first));
        for (std::size_t part = 0; part < parts; ++part) {
          tiles[part][r] = p.k_contiguous ? concatenate(low[part], high[part]) : join(low[part], high[part]);
        }
      }
      for (std::size_t part = 0; part < parts; ++part) {
        if (transpose == Transpose::yes) transpose_16x16(tiles[part]);
        store_tile(reinterpret_cast<Word*>(to + part * part_size), tiles[part]);
      }
    }
  }
  /// Sixteen neighbours of a line in memory, from `from` on.
  static SHOAL_INLINE Floats load(const PackSource<float>& p, std::size_t line, std::size_t from) {
    const std::size_t lines = p.k_contiguous ? p.count : p.depth, neighbours = p.k_contiguous ? p.depth : p.count;
    if (line >= lines || from >= neighbours) return Floats{};
    __builtin_prefetch(p.data + line * p.stride + from + step);  // what the next packing call reads
    return simd::load(p.data + line * p.stride + from, std::min(simd::width, neighbours - from));
  }
  static SHOAL_INLINE Words concatenate(Halves low, Halves high) {
    const std::array<Halves, 2> both = {low, high};
    return std::bit_cast<Words>(both);
  }
};

}  // namespace

std::unique_ptr<Product> make_blocked_fp32(const ProductKey& key) {
  return std::make_unique<BlockedProduct<Thirds, float>>(key);
}
#else
std::unique_ptr<Product> make_blocked_fp32(const ProductKey& /*key*/) { fail("this build has no fp32 products of its own"); }
#endif

}  // namespace shoal::kernels
