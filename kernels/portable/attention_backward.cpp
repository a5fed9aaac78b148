// SPDX-License-Identifier: Apache-2.0
// Backward attention (Dao 2023, FlashAttention-2, Algorithm 2) in two passes. In the first one a team computes the rows of
// dq of a tile of queries, and goes through tiles of keys. In the second one a team computes the rows of dk and dv of a tile
// of keys, and goes through tiles of queries. Scores are computed in both: seven matrix products instead of five. For that
// there are as many teams as tiles, not heads, and no two teams add to the same element. The tile that a team has for itself
// is transposed once.
#include "kernels/portable/attention.hpp"
#include "kernels/portable/attention_tiles.hpp"
#include "kernels/rules/functions.hpp"
#include "shoal/base/error.hpp"

namespace shoal::kernels::portable {

namespace {

/// own: positions in the tile that a team keeps. other: positions in each tile that it loops over. sums: the number of its
/// results.
struct Tiles {
  std::size_t channels, own, other, sums;
  constexpr std::size_t bytes() const {
    return (channels * ((2 + sums) * own + 2 * other) + 2 * own * other) * sizeof(float);
  }
};

constexpr Tiles tiles_for(std::size_t head_size, std::size_t sums) {
  const std::size_t channels = round_up(head_size, column_step);
  for (const std::size_t own : {32, 16}) {
    for (const std::size_t other : {32, 24, 16}) {
      const Tiles tiles{channels, own, other, sums};
      if (tiles.bytes() <= team_memory) return tiles;
    }
  }
  const Tiles small{channels, 16, 8, sums};
  // A product computes a tile in whole blocks, which are larger than these tiles on a processor.
  if (on_host || small.bytes() <= most_team_memory) return small;
  const Tiles eights{channels, 8, 8, sums};
  return eights.bytes() <= most_team_memory ? eights : Tiles{channels, 4, 4, sums};
}
static_assert(tiles_for(128, 1).bytes() <= team_memory && tiles_for(128, 2).bytes() <= team_memory);
static_assert(on_host || tiles_for(longest_head, 2).bytes() <= most_team_memory);

/// What a team has in its scratch memory. Of its own tile and of the other one, x is q or k, and y is dout or v.
struct Scratch {
  float *own_x, *own_y;      // [channels, own]
  float *other_x, *other_y;  // [other, channels]
  float* p;                  // [other, own]; the scores, then the probabilities after dropout
  float* ds;                 // [other, own]; the derivatives of the probabilities, then those of the scores
  float* sums;               // [own, channels], one after another
  SHOAL_FUNCTION Scratch(const Tiles& t, std::byte* memory)
      : own_x(reinterpret_cast<float*>(memory)),
        own_y(own_x + t.channels * t.own),
        other_x(own_y + t.channels * t.own),
        other_y(other_x + t.other * t.channels),
        p(other_y + t.other * t.channels),
        ds(p + t.other * t.own),
        sums(ds + t.other * t.own) {}
};

/// Everything that the passes read.
template <typename T>
struct Problem {
  AttentionShape shape;
  AttentionBackwardInputs<T> in;
  Dropout dropout;
  float scale;
  float* dout_out;  ///< [B, NH, T]
};

/// Two tiles: the team's own one, of queries or of keys, and one of the others. They begin at these positions.
template <bool own_queries>
struct Place {
  std::size_t own, other;
  SHOAL_FUNCTION std::size_t query(std::size_t r, std::size_t c) const { return own_queries ? own + c : other + r; }
  SHOAL_FUNCTION std::size_t key(std::size_t r, std::size_t c) const { return own_queries ? other + r : own + c; }

  /// Whether some query of a block of scores attends to some key of it.
  SHOAL_FUNCTION bool meet(const Block& scores) const {
    const Range &r = scores.rows, &c = scores.columns;
    return own_queries ? key(r.begin, 0) < query(0, c.end) : key(0, c.begin) < query(r.end, 0);
  }
  /// Those of the first `count` other positions that meet one of the own positions `mine`.
  SHOAL_FUNCTION Range met_by(Range mine, std::size_t count) const {
    if (own_queries) return {0, smaller(count, beyond(own + mine.end, other))};
    return {smaller(count, beyond(own + mine.begin, other)), count};
  }
};

/// Computes the scores and the derivatives of the probabilities.
template <class Place>
SHOAL_FUNCTION void score(const Team& team, const Tiles& t, const Place& place, std::size_t head_size, const Scratch& s) {
  const auto terms = [&](const Block& block) { return Range{0, place.meet(block) ? head_size : 0}; };
  tile_product(team, t.other, t.own, {s.other_x, t.channels, 1}, {s.own_x, t.own}, {s.p, t.own}, terms, Zero());
  tile_product(team, t.other, t.own, {s.other_y, t.channels, 1}, {s.own_y, t.own}, {s.ds, t.own}, terms, Zero());
}

/// Replaces them by the probabilities after dropout and the derivatives of the scores. kept(query, key) is dropout's factor.
template <typename T, class Place, class Kept>
SHOAL_FUNCTION void differentiate(const Team& team, const Tiles& t, const Place& place, Range rows, Range columns,
                                  const Problem<T>& problem, std::size_t first_row, const Scratch& s, const Kept& kept) {
  const float *const logsumexp = problem.in.logsumexp + first_row, *const dout_out = problem.dout_out + first_row;
  team.each_pair(rows.size(), columns.size(), [&](std::size_t r, std::size_t c) {
    const std::size_t at = r * t.own + c, query = place.query(r, c);
    const float factor = kept(query, place.key(r, c));
    const float p = rules::exp(rules::Number<float>::fma(s.p[at], problem.scale, -logsumexp[query]));
    s.p[at] = p * factor;
    s.ds[at] = p * (s.ds[at] * factor - dout_out[query]);
  });
  if (place.query(0, 0) >= place.key(t.other, t.own)) return;
  team.sync();
  team.each_pair(rows.size(), columns.size(), [&](std::size_t r, std::size_t c) {
    if (place.key(r, c) > place.query(r, c)) s.p[r * t.own + c] = s.ds[r * t.own + c] = 0.0F;
  });
}

/// sums += left' right, where left is p or ds, and right is other_x or other_y, of the first `count` other positions.
template <class Place>
SHOAL_FUNCTION void add_product(const Team& team, const Tiles& t, const Place& place, std::size_t count, const float* left,
                                const float* right, float* sums) {
  const Result result{sums, t.channels};
  tile_product(
      team, t.own, t.channels, {left, 1, t.own}, {right, t.channels}, result,
      [&](const Block& block) { return place.met_by(block.rows, count); }, Present{result});
}

template <typename T>
SHOAL_FUNCTION void store(const Team& team, const Tiles& t, const float* sums, float factor, const Rows<T>& to,
                          Range positions) {
  team.each_pair(positions.size(), to.size,
                 [&](std::size_t r, std::size_t c) { to[positions.begin + r][c] = T(sums[r * t.channels + c] * factor); });
}

/// One team of a pass. If its own tile is one of queries, it computes dq and dout . out, which the derivative of the softmax
/// subtracts from a whole row of scores; else dk and dv.
template <bool own_queries, typename T>
SHOAL_FUNCTION void backward(const Team& team, const Tiles& t, const Problem<T>& problem, const Head& head,
                             std::size_t first, T* dqkv) {
  const Scratch s(t, team.scratch());
  const AttentionBackwardInputs<T>& in = problem.in;
  const std::size_t end = head.shape.T;
  const Rows<const T> q = head.of_qkv(in.qkv, 0), k = head.of_qkv(in.qkv, 1), v = head.of_qkv(in.qkv, 2),
                      out = head.of_out(in.out), dout = head.of_out(in.dout);
  const Range mine{first, smaller(first + t.own, end)};
  load_transposed(team, own_queries ? q : k, first, mine.size(), s.own_x, t.own);
  load_transposed(team, own_queries ? dout : v, first, mine.size(), s.own_y, t.own);
  if (own_queries) {
    team.each(mine.size(), [&](std::size_t m) {
      problem.dout_out[head.first_row() + first + m] = dot(q.size, out[first + m], dout[first + m]);
    });
  }
  team.each(t.sums * t.own * t.channels, [&](std::size_t i) { s.sums[i] = 0.0F; });
  for (std::size_t other = own_queries ? 0 : first / t.other * t.other; other < (own_queries ? mine.end : end);
       other += t.other) {
    const Place<own_queries> place{first, other};
    const Range others{other, smaller(other + t.other, end)};
    load_rows(team, own_queries ? k : q, other, others.size(), s.other_x, t.channels);
    load_rows(team, own_queries ? v : dout, other, others.size(), s.other_y, t.channels);
    team.sync();
    score(team, t, place, q.size, s);
    team.sync();
    if (problem.dropout.active()) {
      differentiate(team, t, place, others, mine, problem, head.first_row(), s,
                    [&](std::size_t query, std::size_t key) { return head.kept(problem.dropout, query, key); });
    } else {
      differentiate(team, t, place, others, mine, problem, head.first_row(), s,
                    [](std::size_t, std::size_t) { return 1.0F; });
    }
    team.sync();
    add_product(team, t, place, others.size(), s.ds, s.other_x, s.sums);
    if (!own_queries) add_product(team, t, place, others.size(), s.p, s.other_y, s.sums + t.own * t.channels);
    team.sync();
  }
  store(team, t, s.sums, problem.scale, head.of_qkv(dqkv, own_queries ? 0 : 1), mine);
  if (!own_queries) store(team, t, s.sums + t.own * t.channels, 1.0F, head.of_qkv(dqkv, 2), mine);
}

/// Launches a pass.
template <bool own_queries, typename T>
void launch(const char* label, const Problem<T>& problem, T* dqkv) {
  const AttentionShape& s = problem.shape;
  const std::size_t head_size = s.C / s.NH;
  const Tiles tiles = tiles_for(head_size, own_queries ? 1 : 2);
  const std::size_t per_head = parts(s.T, tiles.own);
  const std::size_t flops = (2 + tiles.sums) * tiles.own * s.T * head_size;  // half of the other positions, on average
  for_tiles(
      label, s.B * s.NH * per_head, tiles.bytes(), flops, SHOAL_LAMBDA(std::size_t item, const Team& team) {
        const Head head(problem.shape, item / per_head);
        backward<own_queries>(team, tiles, problem, head, item % per_head * tiles.own, dqkv);
      });
}

}  // namespace

template <typename T>
void attention_backward(const AttentionShape& shape, const AttentionBackwardInputs<T>& in, T* dqkv, const Dropout& dropout,
                        Span<std::byte> workspace) {
  require(workspace.size() >= portable::attention_workspace_bytes(shape), "attention_backward: ", workspace.size(),
          " bytes of workspace; ", portable::attention_workspace_bytes(shape), " are needed");
  const Problem<T> problem{shape, in, dropout, score_scale(shape), reinterpret_cast<float*>(workspace.data())};
  launch<true>("attention_dq", problem, dqkv);
  launch<false>("attention_dkdv", problem, dqkv);
}

#define SHOAL_INSTANCE(T)                                                                                           \
  template void attention_backward<T>(const AttentionShape&, const AttentionBackwardInputs<T>&, T*, const Dropout&, \
                                      Span<std::byte>);
SHOAL_INSTANCE(float)
SHOAL_INSTANCE(bf16)
SHOAL_INSTANCE(f16)
#undef SHOAL_INSTANCE

}  // namespace shoal::kernels::portable
