// SPDX-License-Identifier: Apache-2.0
// Products of bf16 matrices by AMX: the micro-kernel for blocked_product.hpp.
#include "kernels/cpu/product/blocked_product.hpp"
#include "kernels/cpu/vectors/amx.hpp"
#include "kernels/cpu/vectors/words.hpp"
#include "shoal/base/error.hpp"

namespace shoal::kernels {

#if defined(SHOAL_AMX)
namespace {

/// A step is 32 elements of the sum: two tiles of 16 rows of A, and two tiles of 16 columns of B, in words of two elements
/// that are neighbours in the sum.
struct Tiles {
  using Type = bf16;
  using Packed = bf16;
  using Scope = amx::Registers;
  static constexpr std::size_t rows = amx::block, columns = amx::block, step = amx::depth, parts = 1;
  // A micro-panel of B stays in the L1 cache while the micro-panels of A are multiplied with it; packed A and the sums
  // should fit the L2 cache (2 MiB). Chosen by timing on one core of a Xeon with AMX over the shapes of GPT models of width
  // 384.
  static constexpr std::size_t longest_uncut = 384, largest_kc = 256;
  static constexpr std::size_t largest_mc = 12, largest_nb = 16, a_bytes = std::size_t{768} << 10U;

  // Tiles are loaded from packed rows alone.
  static constexpr bool reads_rows(Transpose /*a*/, std::size_t /*k*/) { return false; }
  static constexpr bool prefetches = false;

  static void pack_a(const PackSource<bf16>& s, bf16* to) {
    s.k_contiguous ? pack<Layout::rows>(s, to) : pack<Layout::pairs_transposed>(s, to);
  }
  static void pack_b(const PackSource<bf16>& s, bf16* to) {
    s.k_contiguous ? pack<Layout::rows_transposed>(s, to) : pack<Layout::pairs>(s, to);
  }

  template <Write write, class TileEpilogue>
  static SHOAL_INLINE void multiply(const bf16* a, const bf16* b, const Extent& extent, float* sums,
                                    TileEpilogue& epilogue) {
    const std::size_t rows_a_step = (rows + extent.steps - 1) / extent.steps;
    amx::multiply<write>(factor(a), factor(b), extent.steps, {sums, columns}, [&] { epilogue.write_some(rows_a_step); });
  }

 private:
  static SHOAL_INLINE amx::Factor factor(const bf16* panel) {
    return {panel, amx::row_bytes, amx::tile_bytes, 2 * amx::tile_bytes};
  }

  /// The 16 words of a row of a tile, before the tile is transposed, are 32 neighbours of one line in memory (rows), or 16
  /// neighbours each of two lines, in pairs (pairs).
  enum class Layout { rows, rows_transposed, pairs, pairs_transposed };

  template <Layout layout>
  static SHOAL_INLINE void pack(const PackSource<bf16>& p, bf16* to) {
    auto* words = reinterpret_cast<Word*>(to);
    const bool whole = p.count == rows && p.depth == step;
    for (std::size_t first = 0; first < rows; first += amx::rows) {
      const Tile tile = whole ? tile_of<layout, true>(p, first) : tile_of<layout, false>(p, first);
#pragma GCC unroll 16
      for (std::size_t r = 0; r < amx::rows; ++r, words += simd::width) store_words(words, tile[r]);
    }
  }

  template <Layout layout, bool whole>
  static SHOAL_INLINE Tile tile_of(const PackSource<bf16>& p, std::size_t first) {
    Tile tile;
#pragma GCC unroll 16
    for (std::size_t r = 0; r < amx::rows; ++r) {
      tile[r] = layout == Layout::rows || layout == Layout::rows_transposed ? row_of<whole>(p, first + r)
                                                                            : pairs_of<whole>(p, first, 2 * r);
    }
    if constexpr (layout == Layout::rows_transposed || layout == Layout::pairs_transposed) transpose_16x16(tile);
    return tile;
  }
  template <bool whole>
  static SHOAL_INLINE Words row_of(const PackSource<bf16>& p, std::size_t i) {
    __builtin_prefetch(p.data + i * p.stride + step);
    if constexpr (whole) return load_pairs(p.data + i * p.stride, step);
    return i < p.count ? load_pairs(p.data + i * p.stride, p.depth) : Words{};
  }
  template <bool whole>
  static SHOAL_INLINE Words pairs_of(const PackSource<bf16>& p, std::size_t i, std::size_t k) {
    const auto load = [&](std::size_t at) {
      __builtin_prefetch(p.data + at * p.stride + i + step);
      if constexpr (whole) return load_halves(p.data + at * p.stride + i, amx::columns);
      return at < p.depth && i < p.count ? load_halves(p.data + at * p.stride + i, p.count - i) : simd::Halves{};
    };
    return join(load(k), load(k + 1));
  }
};

}  // namespace

std::unique_ptr<Product> make_blocked_bf16(const ProductKey& key) {
  if (key.result == DType::f32) return std::make_unique<BlockedProduct<Tiles, float>>(key);
  return std::make_unique<BlockedProduct<Tiles, bf16>>(key);
}
#else
std::unique_ptr<Product> make_blocked_bf16(const ProductKey& /*key*/) { fail("this build has no bf16 products of its own"); }
#endif

}  // namespace shoal::kernels
