// SPDX-License-Identifier: Apache-2.0
// The common parts of forward and backward attention: how a head is found in [B, T, 3C], and how its rows get into a team's
// scratch memory. A tile of a head is some of its positions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "kernels/portable/attention.hpp"
#include "kernels/portable/tile_product.hpp"
#include "shoal/kernels/attention.hpp"
#include "shoal/kernels/runtime.hpp"

namespace shoal::kernels::portable {

/// Bytes of scratch memory that a team may use if the head size allows it. A GPU has 48 KiB for each block, of which a
/// launch takes a part for itself.
inline constexpr std::size_t team_memory = 48 * 1024 - 512;

/// Bytes that a team of a GPU may use for longer heads. From capability 8.0 on a block gets 99 KiB (8.6, 8.9 and 12) or
/// more; older GPUs give less, and a launch that asks for too much is an error.
inline constexpr std::size_t most_team_memory = 99 * 1024 - 512;

/// a - b, or 0 if b is larger.
SHOAL_FUNCTION constexpr std::size_t beyond(std::size_t a, std::size_t b) { return a > b ? a - b : 0; }

/// The rows of one head in a tensor.
template <typename T>
struct Rows {
  T* data;
  std::size_t size, stride;
  SHOAL_FUNCTION T* operator[](std::size_t row) const { return data + row * stride; }
};

/// One head of one sequence.
struct Head {
  AttentionShape shape;
  std::size_t sequence, head;
  SHOAL_FUNCTION Head(const AttentionShape& s, std::size_t index) : shape(s), sequence(index / s.NH), head(index % s.NH) {}

  SHOAL_FUNCTION std::size_t size() const { return shape.C / shape.NH; }
  /// Where its rows begin in [B, NH, T].
  SHOAL_FUNCTION std::size_t first_row() const { return (sequence * shape.NH + head) * shape.T; }
  /// Its rows of q (part 0), k (1) or v (2) in [B, T, 3C].
  template <typename T>
  SHOAL_FUNCTION Rows<T> of_qkv(T* qkv, std::size_t part) const {
    const std::size_t stride = 3 * shape.C;
    return {qkv + sequence * shape.T * stride + part * shape.C + head * size(), size(), stride};
  }
  /// Its rows in [B, T, C].
  template <typename T>
  SHOAL_FUNCTION Rows<T> of_out(T* out) const {
    return {out + sequence * shape.T * shape.C + head * size(), size(), shape.C};
  }
  /// Dropout's factor of the probability at (query, key): 1 / (1 - p) if it is kept, else 0. It decides as dropout_keep()
  /// does. The word is chosen by conditions, since compilers make vectors of these, but not of an index into an array.
  SHOAL_FUNCTION float kept(const Dropout& d, std::size_t query, std::size_t key) const {
    const std::uint64_t element = (static_cast<std::uint64_t>(head) * shape.T + query) * shape.T + key;
    const Philox4 bits = dropout_bits(d, d.first_sample + static_cast<std::uint32_t>(sequence), element / 4);
    const std::uint32_t even = element % 4 < 2 ? bits[0] : bits[2], odd = element % 4 < 2 ? bits[1] : bits[3];
    return uniform(element % 2 == 0 ? even : odd) > d.probability ? 1.0F / (1.0F - d.probability) : 0.0F;
  }
};

/// 1 / sqrt(head size), by which scores are multiplied.
inline float score_scale(const AttentionShape& shape) {
  const std::size_t head_size = shape.C / shape.NH;
  return 1.0F / std::sqrt(static_cast<float>(head_size));
}

/// The sum of a[i] b[i], whose term i belongs to chain i mod 16.
template <typename A, typename B>
SHOAL_FUNCTION float dot(std::size_t n, const A* a, const B* b) {
  constexpr std::size_t chains = rules::few_chains;
  float sums[chains] = {};
  const auto add = [&](std::size_t i, float& sum) {
    sum = rules::Number<float>::fma(static_cast<float>(a[i]), static_cast<float>(b[i]), sum);
  };
  std::size_t first = 0;
  for (; first + chains <= n; first += chains) {
    for (std::size_t l = 0; l < chains; ++l) add(first + l, sums[l]);
  }
  for (std::size_t l = 0; first + l < n; ++l) add(first + l, sums[l]);
  return rules::join_few_chains(sums);
}

/// to[r * stride + c] = channel c of row `first` + r.
template <typename T>
SHOAL_FUNCTION void load_rows(const Team& team, const Rows<T>& from, std::size_t first, std::size_t count, float* to,
                              std::size_t stride) {
  team.each_pair(count, from.size,
                 [&](std::size_t r, std::size_t c) { to[r * stride + c] = static_cast<float>(from[first + r][c]); });
}

/// to[c * stride + r] = channel c of row `first` + r.
template <typename T>
SHOAL_FUNCTION void load_transposed(const Team& team, const Rows<T>& from, std::size_t first, std::size_t count, float* to,
                                    std::size_t stride) {
  team.each_pair(count, from.size,
                 [&](std::size_t r, std::size_t c) { to[c * stride + r] = static_cast<float>(from[first + r][c]); });
}

/// As for_teams(), for work of `flops` operations for each item. On a CPU a launch takes about 20 ms, so that messages can
/// advance before the next one.
template <class Body>
void for_tiles(const char* label, std::size_t items, std::size_t scratch_bytes, std::size_t flops, const Body& body) {
  std::size_t per_launch = items;
  if constexpr (on_host) {
    constexpr std::size_t most_flops = 1'500'000'000;
    per_launch =
        std::max<std::size_t>(1, most_flops / std::max<std::size_t>(1, flops)) * static_cast<std::size_t>(threads());
  }
  for (std::size_t first = 0; first < items; first += per_launch) {
    for_teams(
        label, std::min(per_launch, items - first), scratch_bytes,
        SHOAL_LAMBDA(std::size_t item, const Team& team) { body(first + item, team); });
  }
}

}  // namespace shoal::kernels::portable
