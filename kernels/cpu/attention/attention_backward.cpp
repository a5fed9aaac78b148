// SPDX-License-Identifier: Apache-2.0
// Backward by vector instructions. Keys are processed in strips. For each strip, the queries that attend to its keys are
// processed in chunks. Scores are stored transposed, [key, query]: so the values of a query (logsumexp and dout . out) form
// a vector along the columns, and the sums of dv and dk run along rows in memory.
#include <type_traits>

#include "kernels/cpu/attention/attention_amx.hpp"
#include "shoal/base/names.hpp"

namespace shoal::kernels {

namespace attention {

namespace {

constexpr std::size_t key_rows = 16 * block_rows;
constexpr std::size_t query_columns = 192;  // a whole number of tiles and of blocks of rows
static_assert(query_columns % tile_columns == 0 && query_columns % block_rows == 0 && key_rows % 2 == 0);

template <class P>
struct Buffers {
  static constexpr bool joined = P::per_word == 2;
  static constexpr std::size_t row_words = query_columns / P::per_word;

  Word *k, *v, *q_transposed, *dout_transposed, *q_paired, *dout_paired, *k_paired;
  float *logsumexp, *dout_out;    // [positions]; logsumexp is in base 2
  float* dq;                      // [positions, columns of a head]
  float *dk, *dv;                 // [key_rows, columns of a head]
  float *scores, *dp;             // [block_rows, tile_columns], of one block
  Word *probabilities, *dscores;  // [key_rows, query_columns]
  Word* dscores_by_key;           // [key_rows / per_word, query_columns]: words of neighbouring keys
  std::size_t bytes;

  Buffers(const VectorPacking<P>& p, BumpAllocator memory) {
    k = memory.take<Word>(p.natural_size());
    v = memory.take<Word>(p.natural_size());
    q_transposed = memory.take<Word>(p.transposed_size());
    dout_transposed = memory.take<Word>(p.transposed_size());
    q_paired = memory.take<Word>(p.paired_size());
    dout_paired = memory.take<Word>(p.paired_size());
    k_paired = joined ? memory.take<Word>(p.paired_size()) : k;
    logsumexp = memory.take<float>(p.positions());
    dout_out = memory.take<float>(p.positions());
    dq = memory.take<float>(p.positions() * p.columns());
    dk = memory.take<float>(key_rows * p.columns());
    dv = memory.take<float>(key_rows * p.columns());
    scores = memory.take<float>(block_rows * tile_columns);
    dp = memory.take<float>(block_rows * tile_columns);
    // The blocks of dq's last rows read beyond the chunk. The rows that they compute from it are not used.
    probabilities = memory.take<Word>(key_rows * row_words);
    dscores = memory.take<Word>(key_rows * row_words);
    dscores_by_key = joined ? memory.take<Word>(key_rows / P::per_word * query_columns) : dscores;
    bytes = memory.used();
  }
};

/// Keys j0 .. j0 + rows - 1 and queries i0 .. i1 - 1.
struct Chunk {
  std::size_t j0, rows, i0, i1;
  /// The first query that attends to a key of the block that begins at row r, rounded down to a whole vector.
  std::size_t begin(std::size_t r) const { return std::max(i0, (j0 + r) / simd::width * simd::width); }
};

template <typename T>
class HeadBackward {
  using P = Operand<T>;

 public:
  HeadBackward(const Head& head, const Dropout& dropout, Span<std::byte> workspace)
      : head_(head),
        dropout_(dropout),
        packing_{head.shape.T, head.size()},
        buffers_(packing_, BumpAllocator(workspace)),
        scale_(head.scale() * log2e) {}

  void operator()(const AttentionBackwardInputs<T>& in, T* dqkv) {
    pack(in.qkv, in.dout);
    prepare_rows(head_, packing_.positions(), in, buffers_.dout_out, buffers_.logsumexp);
    std::fill_n(buffers_.dq, packing_.positions() * packing_.columns(), 0.0F);
    for (std::size_t j0 = 0; j0 < packing_.T; j0 += key_rows) {
      const std::size_t rows = std::min(key_rows, packing_.T - j0);
      std::fill_n(buffers_.dk, key_rows * packing_.columns(), 0.0F);
      std::fill_n(buffers_.dv, key_rows * packing_.columns(), 0.0F);
      for (std::size_t i0 = j0 / tile_columns * tile_columns; i0 < packing_.T; i0 += query_columns) {
        const Chunk chunk{j0, rows, i0, std::min(i0 + query_columns, packing_.T)};
        differentiate(chunk);
        add_to_keys(chunk, buffers_.probabilities, buffers_.dout_paired, buffers_.dv);
        add_to_keys(chunk, buffers_.dscores, buffers_.q_paired, buffers_.dk);
        add_to_queries(chunk);
      }
      store(buffers_.dk, head_.scale(), dqkv, 1, {j0, j0 + rows});
      store(buffers_.dv, 1.0F, dqkv, 2, {j0, j0 + rows});
    }
    store(buffers_.dq, head_.scale(), dqkv, 0, {0, packing_.T});
  }

 private:
  void pack(const T* qkv, const T* dout) {
    const Rows<const T> q = head_.of_qkv(qkv, 0), k = head_.of_qkv(qkv, 1), v = head_.of_qkv(qkv, 2), d = head_.of_out(dout);
    pack_natural(packing_, k, buffers_.k);
    pack_natural(packing_, v, buffers_.v);
    pack_transposed(packing_, q, buffers_.q_transposed);
    pack_transposed(packing_, d, buffers_.dout_transposed);
    pack_paired(packing_, q, buffers_.q_paired);
    pack_paired(packing_, d, buffers_.dout_paired);
    if (Buffers<P>::joined) pack_paired(packing_, k, buffers_.k_paired);
  }

  /// probabilities = exp(q k' scale - logsumexp), and the derivatives of the scores, block by block.
  void differentiate(const Chunk& chunk) {
    for (std::size_t tile = chunk.i0; tile < chunk.i1; tile += tile_columns) {
      for (std::size_t r = 0; r < chunk.rows; r += block_rows) {
        const std::size_t begin = std::max(tile, chunk.begin(r));
        const std::size_t end = std::min(tile + tile_columns, round_up(chunk.i1, simd::width));
        if (begin >= end) continue;
        const std::size_t at = (chunk.j0 + r) * packing_.row_words(), of = tile * packing_.words() + begin - tile;
        multiply<P, Write::over>({buffers_.k + at, packing_.row_words(), 1}, {buffers_.q_transposed + of, tile_columns},
                                 packing_.words(), {buffers_.scores, tile_columns}, end - begin);
        multiply<P, Write::over>({buffers_.v + at, packing_.row_words(), 1}, {buffers_.dout_transposed + of, tile_columns},
                                 packing_.words(), {buffers_.dp, tile_columns}, end - begin);
        // The product for a block of rows of dq may begin up to block_rows - 1 queries before the first query of this block
        // of keys. It must read zeros there.
        if (begin == chunk.begin(r) && begin > chunk.i0) clear_by_key(r, begin - simd::width - chunk.i0);
        const bool edge = begin < chunk.j0 + r + block_rows || end > packing_.T;
        for (std::size_t i = begin; i < end; i += simd::width) {
          if (edge || dropout_.active()) {
            differentiate_vectors<true>(chunk, r, begin, i);
          } else {
            differentiate_vectors<false>(chunk, r, begin, i);
          }
        }
      }
    }
  }

  void clear_by_key(std::size_t r, std::size_t column) {
    for (std::size_t row = r / P::per_word; row < (r + block_rows) / P::per_word; ++row) {
      store_words(buffers_.dscores_by_key + row * query_columns + column, Words{});
    }
  }

  /// The sixteen queries from i on, for all keys of a block. masked: some queries do not exist or do not attend to some of
  /// the keys, or dropout is active.
  template <bool masked>
  void differentiate_vectors(const Chunk& chunk, std::size_t r, std::size_t begin, std::size_t i) {
    const Floats scale = simd::broadcast(scale_);
    const Floats minus_logsumexp = -simd::load(buffers_.logsumexp + i), dout_out = simd::load(buffers_.dout_out + i);
    std::array<Floats, block_rows> ds;
    const std::size_t column = i - chunk.i0;
    // Local copies, since the compiler must assume that the stores below change the members.
    const float *scores = buffers_.scores + i - begin, *dps = buffers_.dp + i - begin;
    Word* probabilities = buffers_.probabilities + r * Buffers<P>::row_words;
    Word* dscores = buffers_.dscores + r * Buffers<P>::row_words;
    for (std::size_t row = 0; row < block_rows; ++row) {
      Floats p = exp2_of_negative(simd::fma(simd::load(scores), scale, minus_logsumexp));
      Floats dp = simd::load(dps), dropped = p;
      if constexpr (masked) {
        const auto seen = seen_from(chunk.j0 + r + row, i);
        p = simd::select(seen, p, Floats{});
        if (dropout_.active()) {
          const Floats factors = head_.kept_in_column(dropout_, i, chunk.j0 + r + row);
          dp *= factors;
          dropped = p * factors;
        } else {
          dropped = p;
        }
        ds[row] = simd::select(seen, p * (dp - dout_out), Floats{});
      } else {
        ds[row] = p * (dp - dout_out);
      }
      P::put(probabilities, column, dropped);
      P::put(dscores, column, ds[row]);
      scores += tile_columns, dps += tile_columns;
      probabilities += Buffers<P>::row_words, dscores += Buffers<P>::row_words;
    }
    if constexpr (Buffers<P>::joined) {
      for (std::size_t row = 0; row < block_rows; row += 2) {
        store_words(buffers_.dscores_by_key + (r + row) / 2 * query_columns + column, P::join(ds[row], ds[row + 1]));
      }
    }
  }

  /// Lanes of the queries i .. i + 15 that exist and attend to key j.
  SHOAL_INLINE simd::Ints seen_from(std::size_t j, std::size_t i) const {
    const std::size_t before = j > i ? std::min(j - i, simd::width) : 0;
    const std::size_t there = packing_.T > i ? std::min(packing_.T - i, simd::width) : 0;
    return simd::first(there) & ~simd::first(before);
  }

  /// Rows of dv += probabilities times dout, or rows of dk += dscores times q.
  void add_to_keys(const Chunk& chunk, const Word* left, const Word* right, float* sum) {
    for (std::size_t r = 0; r < chunk.rows; r += block_rows) {
      const std::size_t begin = chunk.begin(r);
      if (begin >= chunk.i1) continue;
      const std::size_t steps = (chunk.i1 - begin + P::per_word - 1) / P::per_word;
      const Word* const from = left + r * Buffers<P>::row_words + (begin - chunk.i0) / P::per_word;
      multiply<P, Write::add>({from, Buffers<P>::row_words, 1},
                              {right + begin / P::per_word * packing_.columns(), packing_.columns()}, steps,
                              {sum + r * packing_.columns(), packing_.columns()}, packing_.columns());
    }
  }

  /// Rows of dq += dscores' times k.
  void add_to_queries(const Chunk& chunk) {
    const Right keys{buffers_.k_paired + chunk.j0 / P::per_word * packing_.columns(), packing_.columns()};
    for (std::size_t i = chunk.i0; i < chunk.i1; i += block_rows) {
      const std::size_t end = std::min(chunk.rows, i + block_rows > chunk.j0 ? i + block_rows - chunk.j0 : 0);
      multiply<P, Write::add>({buffers_.dscores_by_key + (i - chunk.i0), 1, query_columns}, keys,
                              (end + P::per_word - 1) / P::per_word,
                              {buffers_.dq + i * packing_.columns(), packing_.columns()}, packing_.columns());
    }
  }

  /// Stores rows of dq (part 0), dk (1) or dv (2), multiplied by `factor`.
  void store(const float* from, float factor, T* dqkv, std::size_t part, Range rows) {
    const Rows<T> to = head_.of_qkv(dqkv, part);
    for (std::size_t t = rows.begin; t < rows.end; ++t, from += packing_.columns()) {
      to.template prefetch_after<Access::write>(t);
      simd::for_vectors(packing_.HS,
                        [&](std::size_t c, auto lanes) { simd::store(to[t] + c, simd::load(from + c) * factor, lanes); });
    }
  }

  const Head& head_;
  const Dropout& dropout_;
  VectorPacking<P> packing_;
  Buffers<P> buffers_;
  float scale_;  // 1 / sqrt(HS), for scores in base 2
};

}  // namespace

template <typename T>
std::size_t backward_bytes(const AttentionShape& s) {
  const std::size_t bytes = Buffers<Operand<T>>({s.T, s.C / s.NH}, BumpAllocator()).bytes;
  if constexpr (has_tiles<T>) return std::max(bytes, tiled::backward_bytes(s));
  return bytes;
}
template std::size_t backward_bytes<float>(const AttentionShape&);
template std::size_t backward_bytes<bf16>(const AttentionShape&);
template std::size_t backward_bytes<f16>(const AttentionShape&);

template <typename T>
void backward_by(Backend by, const AttentionShape& shape, const AttentionBackwardInputs<T>& in, T* dqkv,
                 const Dropout& dropout, Span<std::byte> workspace) {
  require(by == Backend::vectors || by == backend<T>(), "attention_backward: no tiles for ", name_of(dtype_of<T>),
          " on this machine");
  for_heads<T>("attention_backward", shape, 5, workspace, [&](const Head& head, Span<std::byte> mine) {
    if constexpr (has_tiles<T>) {
      if (by == Backend::tiles) return tiled::backward(head, dropout, mine, in, dqkv);
    }
    HeadBackward<T>(head, dropout, mine)(in, dqkv);
  });
}
template void backward_by<float>(Backend, const AttentionShape&, const AttentionBackwardInputs<float>&, float*,
                                 const Dropout&, Span<std::byte>);
template void backward_by<bf16>(Backend, const AttentionShape&, const AttentionBackwardInputs<bf16>&, bf16*, const Dropout&,
                                Span<std::byte>);
template void backward_by<f16>(Backend, const AttentionShape&, const AttentionBackwardInputs<f16>&, f16*, const Dropout&,
                               Span<std::byte>);

}  // namespace attention

}  // namespace shoal::kernels
