// SPDX-License-Identifier: Apache-2.0
// Forward attention (Dao 2023, FlashAttention-2, Algorithm 1). A team computes the rows of `out` of a tile of queries. It
// goes through tiles of keys. Scores are stored transposed, [key, query]: then the largest score and the sum of each query
// are computed for many queries side by side, and only the queries have to be transposed, once.
#include <limits>

#include "kernels/portable/attention.hpp"
#include "kernels/portable/attention_tiles.hpp"
#include "kernels/rules/functions.hpp"

namespace shoal::kernels::portable {

namespace {

/// The positions in a tile of queries and of keys, for heads with `channels` channels, which are padded to whole blocks.
struct Tiles {
  std::size_t channels, queries, keys;
  constexpr std::size_t bytes() const {
    return (channels * (2 * queries + keys) + keys * queries + 3 * queries) * sizeof(float);
  }
};

constexpr Tiles tiles_for(std::size_t head_size) {
  const std::size_t channels = round_up(head_size, column_step);
  for (const std::size_t queries : {32, 16}) {
    for (const std::size_t keys : {32, 24, 16}) {
      const Tiles tiles{channels, queries, keys};
      if (tiles.bytes() <= team_memory) return tiles;
    }
  }
  const Tiles small{channels, 16, 16};
  // A product computes a tile in whole blocks, which are larger than this tile on a processor.
  return on_host || small.bytes() <= most_team_memory ? small : Tiles{channels, 8, 8};
}
static_assert(tiles_for(128).bytes() <= team_memory);
static_assert(on_host || tiles_for(longest_head).bytes() <= most_team_memory);

/// What a team has in its scratch memory.
struct Scratch {
  float* q;                           // [channels, queries]
  float* kv;                          // [keys, channels], k and then v
  float* scores;                      // [keys, queries]; then their exponentials
  float* out;                         // [queries, channels], without the division by `sum`
  float *largest, *sum, *correction;  // [queries]
  SHOAL_FUNCTION Scratch(const Tiles& t, std::byte* memory)
      : q(reinterpret_cast<float*>(memory)),
        kv(q + t.channels * t.queries),
        scores(kv + t.channels * t.keys),
        out(scores + t.keys * t.queries),
        largest(out + t.queries * t.channels),
        sum(largest + t.queries),
        correction(sum + t.queries) {}
};

/// Queries from q0 on and keys from k0 on, of which `keys` exist.
struct Place {
  std::size_t q0, k0, keys;
  /// The queries of the tile before this one do not attend to key k0 + j.
  SHOAL_FUNCTION std::size_t first_query(std::size_t j) const { return beyond(k0 + j, q0); }
  /// The keys of the tile from this one on are not attended to by the queries before q0 + end.
  SHOAL_FUNCTION std::size_t last_key(std::size_t end) const { return smaller(keys, beyond(q0 + end, k0)); }
};

/// scores = k q', and minus infinity where a query does not attend to a key.
SHOAL_FUNCTION void score(const Team& team, const Tiles& tiles, const Place& at, std::size_t head_size, const Scratch& s) {
  const auto terms = [&](const Block& block) {
    return Range{0, at.first_query(block.rows.begin) < block.columns.end ? head_size : 0};
  };
  tile_product(team, tiles.keys, tiles.queries, {s.kv, tiles.channels, 1}, {s.q, tiles.queries}, {s.scores, tiles.queries},
               terms, Zero());
  team.sync();
  if (at.first_query(tiles.keys - 1) == 0) return;
  for (std::size_t j = 0; j < tiles.keys; ++j) {
    team.each(smaller(at.first_query(j), tiles.queries),
              [&](std::size_t m) { s.scores[j * tiles.queries + m] = -std::numeric_limits<float>::infinity(); });
  }
  team.sync();
}

/// Replaces the scores by their exponentials relative to the largest score of each query so far. `correction` is the factor
/// of the query's earlier sums.
SHOAL_FUNCTION void exponentiate(const Team& team, const Tiles& tiles, std::size_t keys, float scale, const Scratch& s) {
  using N = rules::Number<float>;
  const std::size_t queries = tiles.queries;
  // A thread has the same queries in each of these loops, so they need not wait for one another.
  team.each(queries, [&](std::size_t m) { s.correction[m] = -std::numeric_limits<float>::infinity(); });
  for (std::size_t j = 0; j < keys; ++j) {
    team.each(queries, [&](std::size_t m) { s.correction[m] = N::max(s.scores[j * queries + m], s.correction[m]); });
  }
  team.each(queries, [&](std::size_t m) {
    const float now = N::max(s.correction[m] * scale, s.largest[m]);
    s.correction[m] = rules::exp(s.largest[m] - now);
    s.sum[m] *= s.correction[m];
    s.largest[m] = now;
  });
  team.sync();
  team.each_pair(keys, queries, [&](std::size_t j, std::size_t m) {
    float& x = s.scores[j * queries + m];
    x = rules::exp(N::fma(x, scale, -s.largest[m]));
  });
  team.sync();
  for (std::size_t j = 0; j < keys; ++j) {
    team.each(queries, [&](std::size_t m) { s.sum[m] += s.scores[j * queries + m]; });
  }
}

template <typename T>
SHOAL_FUNCTION void forward(const Team& team, const Tiles& tiles, const Head& head, std::size_t q0, float scale,
                            const T* qkv, const AttentionOutputs<T>& out, const Dropout& dropout) {
  const Scratch s(tiles, team.scratch());
  const std::size_t rows = smaller(tiles.queries, head.shape.T - q0);
  load_transposed(team, head.of_qkv(qkv, 0), q0, rows, s.q, tiles.queries);
  team.each(tiles.queries, [&](std::size_t m) {
    s.largest[m] = -std::numeric_limits<float>::infinity();
    s.sum[m] = 0.0F;
  });
  team.each(tiles.queries * tiles.channels, [&](std::size_t i) { s.out[i] = 0.0F; });
  for (std::size_t k0 = 0; k0 < q0 + rows; k0 += tiles.keys) {
    const Place at{q0, k0, smaller(tiles.keys, head.shape.T - k0)};
    load_rows(team, head.of_qkv(qkv, 1), k0, at.keys, s.kv, tiles.channels);
    team.sync();
    score(team, tiles, at, head.size(), s);
    load_rows(team, head.of_qkv(qkv, 2), k0, at.keys, s.kv, tiles.channels);
    exponentiate(team, tiles, at.keys, scale, s);
    team.sync();
    if (dropout.active()) {
      team.each_pair(at.keys, tiles.queries, [&](std::size_t j, std::size_t m) {
        s.scores[j * tiles.queries + m] *= head.kept(dropout, q0 + m, k0 + j);
      });
      team.sync();
    }
    tile_product(
        team, tiles.queries, tiles.channels, {s.scores, 1, tiles.queries}, {s.kv, tiles.channels}, {s.out, tiles.channels},
        [&](const Block& block) {
          return Range{0, at.last_key(block.rows.end)};
        },
        [&](std::size_t m, std::size_t c) { return s.out[m * tiles.channels + c] * s.correction[m]; });
    team.sync();
  }
  const Rows<T> to = head.of_out(out.out);
  team.each_pair(rows, head.size(),
                 [&](std::size_t m, std::size_t c) { to[q0 + m][c] = T(s.out[m * tiles.channels + c] / s.sum[m]); });
  team.each(rows, [&](std::size_t m) { out.logsumexp[head.first_row() + q0 + m] = s.largest[m] + rules::log(s.sum[m]); });
}

}  // namespace

template <typename T>
void attention_forward(const AttentionShape& shape, const T* qkv, const AttentionOutputs<T>& out, const Dropout& dropout) {
  const AttentionShape s = shape;
  const AttentionOutputs<T> to = out;
  const Dropout drop = dropout;
  const Tiles tiles = tiles_for(s.C / s.NH);
  const std::size_t per_head = parts(s.T, tiles.queries);
  const std::size_t flops = 2 * tiles.queries * s.T * (s.C / s.NH);  // two products, half of the keys on average
  const float scale = score_scale(s);
  for_tiles(
      "attention", s.B * s.NH * per_head, tiles.bytes(), flops, SHOAL_LAMBDA(std::size_t item, const Team& team) {
        forward(team, tiles, Head(s, item / per_head), item % per_head * tiles.queries, scale, qkv, to, drop);
      });
}

template void attention_forward<float>(const AttentionShape&, const float*, const AttentionOutputs<float>&, const Dropout&);
template void attention_forward<bf16>(const AttentionShape&, const bf16*, const AttentionOutputs<bf16>&, const Dropout&);
template void attention_forward<f16>(const AttentionShape&, const f16*, const AttentionOutputs<f16>&, const Dropout&);

}  // namespace shoal::kernels::portable
