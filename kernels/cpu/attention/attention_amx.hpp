// SPDX-License-Identifier: Apache-2.0
// Attention in bf16 by AMX: how operands are packed for the tiles, and what else forward and backward have in common.
#pragma once

#include "kernels/cpu/attention/attention.hpp"
#include "kernels/cpu/vectors/amx.hpp"

namespace shoal::kernels::attention::tiled {

std::size_t forward_bytes(const AttentionShape& shape);
std::size_t backward_bytes(const AttentionShape& shape);
void forward(const Head& head, const Dropout& dropout, Span<std::byte> workspace, const bf16* qkv,
             const AttentionOutputs<bf16>& out);
void backward(const Head& head, const Dropout& dropout, Span<std::byte> workspace, const AttentionBackwardInputs<bf16>& in,
              bf16* dqkv);

#if defined(SHOAL_AMX)

using amx::block;
using Source = Rows<const bf16>;

/// The T positions and HS channels of a head, both padded with zeros to whole blocks. Each layout below has
/// positions() * channels() elements.
struct TilePacking {
  std::size_t T, HS;
  explicit TilePacking(const AttentionShape& s) : T(s.T), HS(s.C / s.NH) {}
  std::size_t positions() const { return round_up(T, block); }
  std::size_t channels() const { return round_up(HS, block); }
  std::size_t size() const { return positions() * channels(); }
  /// Number of steps of a sum over channels.
  std::size_t channel_steps() const { return channels() / amx::depth; }
};

/// 32 channels of a position, from `channel` on; zero outside of the head.
SHOAL_INLINE Words load_channels(const Source& rows, std::size_t position, std::size_t channel) {
  if (position >= rows.count || channel >= rows.size) return Words{};
  return Pair::load(rows[position] + channel, rows.size - channel);
}
/// 16 channels of two neighbouring positions: a word holds one channel of both.
SHOAL_INLINE Words load_pairs(const Source& rows, std::size_t position, std::size_t channel) {
  const auto load = [&](std::size_t at) {
    return at < rows.count && channel < rows.size ? Pair::load_halves(rows[at] + channel, rows.size - channel) : Halves{};
  };
  return Pair::join(load(position), load(position + 1));
}

/// Layout [positions, channels]: rows of a left factor in a sum over channels.
inline void pack_rows(const TilePacking& p, const Source& rows, bf16* out) {
  auto* words = reinterpret_cast<Word*>(out);
  for (std::size_t t = 0; t < p.positions(); ++t) {
    rows.prefetch_after(t);
    for (std::size_t c = 0; c < p.channels(); c += amx::depth, words += simd::width) {
      store_words(words, load_channels(rows, t, c));
    }
  }
}
inline amx::Factor rows_of(const TilePacking& p, const bf16* packed, std::size_t position) {
  const std::size_t row = p.channels() * sizeof(bf16);
  return {packed + position * p.channels(), row, amx::rows * row, amx::row_bytes};
}

/// Layout [positions / 16, channels / 32] of tiles [16 pairs of channels, 16 positions]: columns of a right factor in a sum
/// over channels.
inline void pack_columns(const TilePacking& p, const Source& rows, bf16* out) {
  auto* words = reinterpret_cast<Word*>(out);
  for (std::size_t t = 0; t < p.positions(); t += amx::columns) {
    for (std::size_t l = 0; l < amx::columns; ++l) rows.prefetch_after(t + l);
    for (std::size_t c = 0; c < p.channels(); c += amx::depth) {
      words = store_tile(words, load_transposed([&](std::size_t l) { return load_channels(rows, t + l, c); }));
    }
  }
}
inline amx::Factor columns_of(const TilePacking& p, const bf16* packed, std::size_t position) {
  return {packed + position * p.channels(), amx::row_bytes, p.channel_steps() * amx::tile_bytes, amx::tile_bytes};
}

/// Layout [pairs of positions, channels]: rows of a right factor in a sum over positions.
inline void pack_pairs(const TilePacking& p, const Source& rows, bf16* out) {
  auto* words = reinterpret_cast<Word*>(out);
  for (std::size_t t = 0; t < p.positions(); t += 2) {
    rows.prefetch_after(t);
    rows.prefetch_after(t + 1);
    for (std::size_t c = 0; c < p.channels(); c += simd::width, words += simd::width) {
      store_words(words, load_pairs(rows, t, c));
    }
  }
}
inline amx::Factor pairs_of(const TilePacking& p, const bf16* packed, std::size_t position, std::size_t channel) {
  const std::size_t row = p.channels() * sizeof(Word);
  return {packed + position * p.channels() + 2 * channel, row, amx::row_bytes, amx::depth / 2 * row};
}

/// Layout [positions / 32, channels, 32 positions]: rows of the transposed operand, a left factor in a sum over positions.
inline void pack_transposed(const TilePacking& p, const Source& rows, bf16* out) {
  auto* words = reinterpret_cast<Word*>(out);
  for (std::size_t t = 0; t < p.positions(); t += block) {
    for (std::size_t l = 0; l < block; ++l) rows.prefetch_after(t + l);
    for (std::size_t c = 0; c < p.channels(); c += simd::width) {
      words = store_tile(words, load_transposed([&](std::size_t l) { return load_pairs(rows, t + 2 * l, c); }));
    }
  }
}
inline amx::Factor transposed_of(const TilePacking& p, const bf16* packed, std::size_t position, std::size_t channel) {
  return {packed + position * p.channels() + channel * block, amx::row_bytes, amx::tile_bytes,
          p.channels() * amx::row_bytes};
}

/// 2^x for x <= 0 (or slightly above by rounding) with a relative error of 3e-6, a thousandth of the error of rounding to
/// bf16. Exact for 0. x = n + f with |f| <= 1/2; 2^f by a polynomial of degree 4, fitted for the least relative error.
SHOAL_INLINE Floats quick_exp2(Floats x) {
  constexpr float magic = 0x1.8p23F + 127.0F;  // as in exp2_of_negative()
  x = simd::max(simd::broadcast(-126.0F), x);
  const Floats shifted = x + magic;
  const Floats f = x - (shifted - magic);
  Floats p = simd::fma(simd::broadcast(0x1.3a02ccp-7F), f, simd::broadcast(0x1.c9fc46p-5F));
  p = simd::fma(p, f, simd::broadcast(0x1.ec0378p-3F));
  p = simd::fma(p, f, simd::broadcast(0x1.62e12cp-1F));
  p = simd::fma(p, f, simd::broadcast(1.0F));
  return p * std::bit_cast<Floats>(std::bit_cast<Words>(shifted) << 23U);
}

/// 32 neighbouring elements, rounded to bf16.
SHOAL_INLINE Words rounded(Floats first, Floats second) { return std::bit_cast<Words>(_mm512_cvtne2ps_pbh(second, first)); }

#endif

}  // namespace shoal::kernels::attention::tiled
