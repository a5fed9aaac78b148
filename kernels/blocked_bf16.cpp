// SPDX-License-Identifier: Apache-2.0
// bf16 products by AMX.
#include "amx.hpp"
#include "blocked_product.hpp"
#include "shoal/base/error.hpp"
#include "words.hpp"

namespace shoal::kernels {

#if defined(SHOAL_AMX)
namespace {

/// Steps of 32 elements of the sum: two tiles of 16 rows of A, and two of 16 columns of B in words of two elements.
struct Tiles {
  using Type = bf16;
  using Packed = bf16;
  using Scope = amx::Registers;
  static constexpr std::size_t rows = amx::block, columns = amx::block, step = amx::depth, parts = 1;
  // A strip of B stays in the first cache while those of A pass by, both over a chunk; the rest is to fit the second (2
  // MiB). Timed on one core of a Xeon with tiles over the shapes of GPT models of width 384.
  static constexpr std::size_t longest_chunk = 384, chunk = 256;
  static constexpr std::size_t block_rows = 12, block_columns = 16, left_bytes = std::size_t{768} << 10U;

  static void pack_left(const Piece<bf16>& p, bf16* to) { p.along ? pack<copy_rows>(p, to) : pack<turn_pairs>(p, to); }
  static void pack_right(const Piece<bf16>& p, bf16* to) { p.along ? pack<turn_rows>(p, to) : pack<copy_pairs>(p, to); }

  template <bool over, class Finisher>
  static SHOAL_INLINE void multiply(const bf16* left, const bf16* right, std::size_t steps, float* sums,
                                    Finisher& finisher) {
    constexpr auto write = over ? amx::Write::over : amx::Write::add;
    const std::size_t rows_a_step = (rows + steps - 1) / steps;
    amx::multiply<write>(factor(left), factor(right), steps, {sums, columns}, [&] { finisher.some(rows_a_step); });
  }

 private:
  using Tile = std::array<Words, amx::rows>;
  static constexpr std::size_t tile_words = amx::tile_bytes / sizeof(Word);

  static SHOAL_INLINE amx::Factor factor(const bf16* strip) {
    return {strip, amx::row_bytes, amx::tile_bytes, 2 * amx::tile_bytes};
  }

  /// A tile's rows: 32 neighbours of a line, or pairs out of two lines' 16 neighbours; and either turned over.
  enum Way { copy_rows, turn_rows, copy_pairs, turn_pairs };

  template <Way way>
  static SHOAL_INLINE void pack(const Piece<bf16>& p, bf16* to) {
    auto* words = reinterpret_cast<Word*>(to);
    const bool whole = p.count == rows && p.depth == step;
    for (std::size_t first = 0; first < rows; first += amx::rows) {
      const Tile tile = whole ? tile_of<way, true>(p, first) : tile_of<way, false>(p, first);
#pragma GCC unroll 16
      for (std::size_t r = 0; r < amx::rows; ++r, words += simd::width) store_words(words, tile[r]);
    }
  }

  template <Way way, bool whole>
  static SHOAL_INLINE Tile tile_of(const Piece<bf16>& p, std::size_t first) {
    Tile tile;
#pragma GCC unroll 16
    for (std::size_t r = 0; r < amx::rows; ++r) {
      tile[r] = way == copy_rows || way == turn_rows ? row_of<whole>(p, first + r) : pairs_of<whole>(p, first, 2 * r);
    }
    if constexpr (way == turn_rows || way == turn_pairs) transpose_16x16(tile);
    return tile;
  }
  template <bool whole>
  static SHOAL_INLINE Words row_of(const Piece<bf16>& p, std::size_t i) {
    __builtin_prefetch(p.data + i * p.stride + step);
    if constexpr (whole) return load_pairs(p.data + i * p.stride, step);
    return i < p.count ? load_pairs(p.data + i * p.stride, p.depth) : Words{};
  }
  template <bool whole>
  static SHOAL_INLINE Words pairs_of(const Piece<bf16>& p, std::size_t i, std::size_t k) {
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
