// SPDX-License-Identifier: Apache-2.0
// Backward by AMX. Keys are processed in strips. For each strip, the queries that attend to its keys are processed in
// chunks. As in attention_backward.cpp, scores are stored transposed, [key, query]. dq is summed transposed, too: its right
// factor then consists of words of neighbouring keys, which are in registers when the derivatives of the scores are
// computed.
#include "kernels/cpu/attention/attention_amx.hpp"

#if defined(SHOAL_AMX)

namespace shoal::kernels::attention::tiled {

namespace {

constexpr std::size_t key_rows = 128;       // of a strip
constexpr std::size_t query_columns = 128;  // of a chunk
static_assert(key_rows % block == 0 && query_columns % block == 0);

struct Buffers {
  bf16 *k, *v, *q_columns, *dout_columns, *q_pairs, *dout_pairs, *k_transposed;
  float *logsumexp, *dout_out;    // [positions]; logsumexp is in base 2
  float* dq;                      // [positions / block, channels, block]
  float *dk, *dv;                 // [key_rows, channels]
  float *scores, *dp;             // [block, block], of one block
  bf16 *probabilities, *dscores;  // [key_rows, query_columns]
  Word* dscores_by_key;           // [key_rows / 2, query_columns]: words of two neighbouring keys
  std::size_t bytes;

  Buffers(const TilePacking& p, BumpAllocator memory) {
    for (bf16** packed : {&k, &v, &q_columns, &dout_columns, &q_pairs, &dout_pairs, &k_transposed}) {
      *packed = memory.take<bf16>(p.size());
    }
    logsumexp = memory.take<float>(p.positions());
    dout_out = memory.take<float>(p.positions());
    dq = memory.take<float>(p.size());
    dk = memory.take<float>(key_rows * p.channels());
    dv = memory.take<float>(key_rows * p.channels());
    scores = memory.take<float>(block * block);
    dp = memory.take<float>(block * block);
    probabilities = memory.take<bf16>(key_rows * query_columns);
    dscores = memory.take<bf16>(key_rows * query_columns);
    dscores_by_key = memory.take<Word>(key_rows / 2 * query_columns);
    bytes = memory.used();
  }
};

/// Keys j0 .. j1 - 1 and queries i0 .. i1 - 1. All four are multiples of 32.
struct Chunk {
  std::size_t j0, j1, i0, i1;
  bool first() const { return i0 == j0; }
  /// The first query of the first block that attends to a key of the block at row r; i1 if there is none.
  std::size_t begin(std::size_t r) const { return std::min(i1, std::max(i0, j0 + r)); }
};

class HeadBackward {
 public:
  HeadBackward(const Head& head, const Dropout& dropout, Span<std::byte> workspace)
      : head_(head), dropout_(dropout), packing_(head.shape), buffers_(packing_, BumpAllocator(workspace)) {}

  void operator()(const AttentionBackwardInputs<bf16>& in, bf16* dqkv) {
    pack(in.qkv, in.dout);
    prepare_rows(head_, packing_.positions(), in, buffers_.dout_out, buffers_.logsumexp);
    const std::size_t end = packing_.positions();
    for (std::size_t j0 = 0; j0 < end; j0 += key_rows) {
      const std::size_t j1 = std::min(j0 + key_rows, end);
      for (std::size_t i0 = j0; i0 < end; i0 += query_columns) {
        const Chunk chunk{j0, j1, i0, std::min(i0 + query_columns, end)};
        differentiate(chunk);
        add_to_keys(chunk, buffers_.probabilities, buffers_.dout_pairs, buffers_.dv);
        add_to_keys(chunk, buffers_.dscores, buffers_.q_pairs, buffers_.dk);
        add_to_queries(chunk);
      }
      store_keys(buffers_.dk, head_.scale(), head_.of_qkv(dqkv, 1), j0, j1);
      store_keys(buffers_.dv, 1.0F, head_.of_qkv(dqkv, 2), j0, j1);
    }
    store_queries(head_.of_qkv(dqkv, 0));
  }

 private:
  void pack(const bf16* qkv, const bf16* dout) {
    const Source q = head_.of_qkv(qkv, 0), k = head_.of_qkv(qkv, 1), v = head_.of_qkv(qkv, 2), d = head_.of_out(dout);
    pack_rows(packing_, k, buffers_.k);
    pack_rows(packing_, v, buffers_.v);
    pack_columns(packing_, q, buffers_.q_columns);
    pack_columns(packing_, d, buffers_.dout_columns);
    pack_pairs(packing_, q, buffers_.q_pairs);
    pack_pairs(packing_, d, buffers_.dout_pairs);
    pack_transposed(packing_, k, buffers_.k_transposed);
  }

  /// probabilities = exp(q k' scale - logsumexp), and the derivatives of the scores, block by block.
  void differentiate(const Chunk& chunk) {
    for (std::size_t r = 0; r < chunk.j1 - chunk.j0; r += block) {
      const std::size_t j = chunk.j0 + r;
      for (std::size_t i = chunk.begin(r); i < chunk.i1; i += block) {
        amx::multiply<Write::over>(rows_of(packing_, buffers_.k, j), columns_of(packing_, buffers_.q_columns, i),
                                   packing_.channel_steps(), {buffers_.scores, block});
        amx::multiply<Write::over>(rows_of(packing_, buffers_.v, j), columns_of(packing_, buffers_.dout_columns, i),
                                   packing_.channel_steps(), {buffers_.dp, block});
        const std::size_t at = r * query_columns + i - chunk.i0;
        if (i == j || dropout_.active()) {
          differentiate_block<true>(j, i, at);
        } else {
          differentiate_block<false>(j, i, at);
        }
      }
    }
  }

  /// Keys j .. j + 31 and queries i .. i + 31, which begin at element `at` of the chunk's buffers. masked: some queries do
  /// not attend to some of the keys, or dropout is active.
  template <bool masked>
  void differentiate_block(std::size_t j, std::size_t i, std::size_t at) {
    const Floats scale = simd::broadcast(head_.scale() * log2e);
    const Floats minus_logsumexp[2] = {-simd::load(buffers_.logsumexp + i),
                                       -simd::load(buffers_.logsumexp + i + simd::width)};
    const Floats dout_out[2] = {simd::load(buffers_.dout_out + i), simd::load(buffers_.dout_out + i + simd::width)};
    auto* const by_key = buffers_.dscores_by_key + at / query_columns / 2 * query_columns + at % query_columns;
    for (std::size_t row = 0; row < block; row += 2) {
      Words ds_of_two[2];
#pragma GCC unroll 2
      for (std::size_t r = row; r < row + 2; ++r) {
        Floats p[2], ds[2];
#pragma GCC unroll 2
        for (std::size_t h = 0; h < 2; ++h) {
          const std::size_t in_block = r * block + h * simd::width;
          p[h] = quick_exp2(simd::fma(simd::load(buffers_.scores + in_block), scale, minus_logsumexp[h]));
          Floats dp = simd::load(buffers_.dp + in_block), dropped = p[h];
          if constexpr (masked) {
            const std::size_t query = i + h * simd::width, key = j + r;
            const auto seen = ~simd::first(key > query ? std::min(key - query, simd::width) : 0);
            dropped = p[h] = seen ? p[h] : Floats{};
            if (dropout_.active()) {
              const Floats factors = head_.kept_in_column(dropout_, query, key);
              dp *= factors;
              dropped *= factors;
            }
            ds[h] = seen ? p[h] * (dp - dout_out[h]) : Floats{};
          } else {
            ds[h] = p[h] * (dp - dout_out[h]);
          }
          p[h] = dropped;
        }
        store_words(reinterpret_cast<Word*>(buffers_.probabilities + at + r * query_columns), rounded(p[0], p[1]));
        ds_of_two[r - row] = rounded(ds[0], ds[1]);
        store_words(reinterpret_cast<Word*>(buffers_.dscores + at + r * query_columns), ds_of_two[r - row]);
      }
      // Words of two keys for sixteen queries each. The instructions interleave within 128 bits, so that the two vectors do
      // not hold the first and the second sixteen queries: query_of() gives their order.
      const auto first = std::bit_cast<__m512i>(ds_of_two[0]), second = std::bit_cast<__m512i>(ds_of_two[1]);
      store_words(by_key + row / 2 * query_columns, std::bit_cast<Words>(_mm512_unpacklo_epi16(first, second)));
      store_words(by_key + row / 2 * query_columns + simd::width,
                  std::bit_cast<Words>(_mm512_unpackhi_epi16(first, second)));
    }
  }

  /// The query of a block that is in a column of the first (0) or second (1) half of dscores_by_key and dq.
  static constexpr std::size_t query_of(std::size_t half, std::size_t column) {
    return column / 4 * 8 + half * 4 + column % 4;
  }

  /// Rows of dv = or += probabilities times dout, or rows of dk = or += dscores times q.
  void add_to_keys(const Chunk& chunk, const bf16* left, const bf16* right, float* sum) {
    constexpr std::size_t row = query_columns * sizeof(bf16);
    for (std::size_t r = 0; r < chunk.j1 - chunk.j0; r += block) {
      const std::size_t begin = chunk.begin(r), steps = (chunk.i1 - begin) / amx::depth;
      const amx::Factor factor{left + r * query_columns + begin - chunk.i0, row, amx::rows * row, amx::row_bytes};
      for (std::size_t channel = 0; channel < packing_.channels(); channel += block) {
        const amx::Result result{sum + r * packing_.channels() + channel, packing_.channels()};
        const amx::Factor others = pairs_of(packing_, right, begin, channel);
        if (chunk.first()) {
          amx::multiply<Write::over>(factor, others, steps, result);
        } else {
          amx::multiply<Write::add>(factor, others, steps, result);
        }
      }
    }
  }

  /// Columns of the transposed dq = or += k' times dscores.
  void add_to_queries(const Chunk& chunk) {
    constexpr std::size_t row = query_columns * sizeof(Word);
    for (std::size_t i = chunk.i0; i < chunk.i1; i += block) {
      const std::size_t steps = (std::min(chunk.j1, i + block) - chunk.j0) / amx::depth;
      const amx::Factor factor{buffers_.dscores_by_key + i - chunk.i0, row, amx::row_bytes, amx::depth / 2 * row};
      for (std::size_t channel = 0; channel < packing_.channels(); channel += block) {
        const amx::Result result{buffers_.dq + i * packing_.channels() + channel * block, block};
        const amx::Factor keys = transposed_of(packing_, buffers_.k_transposed, chunk.j0, channel);
        if (chunk.j0 == 0) {
          amx::multiply<Write::over>(keys, factor, steps, result);
        } else {
          amx::multiply<Write::add>(keys, factor, steps, result);
        }
      }
    }
  }

  void store_keys(const float* from, float factor, const Rows<bf16>& to, std::size_t begin, std::size_t end) {
    for (std::size_t t = begin; t < std::min(end, packing_.T); ++t, from += packing_.channels()) {
      to.prefetch_after<Access::write>(t);
      simd::for_vectors(packing_.HS,
                        [&](std::size_t c, auto part) { simd::store(to[t] + c, simd::load(from + c) * factor, part); });
    }
  }

  void store_queries(const Rows<bf16>& to) {
    const float scale = head_.scale();
    for (std::size_t t = 0; t < packing_.T; t += block) {
      for (std::size_t l = 0; l < block; ++l) to.prefetch_after<Access::write>(t + l);
      for (std::size_t half = 0; half < 2; ++half) {
        simd::for_vectors(packing_.HS, [&](std::size_t channel, auto part) {
          const float* const from = buffers_.dq + t * packing_.channels() + channel * block + half * simd::width;
          const Tile tile = load_transposed([&](std::size_t c) { return load_words(from + c * block); });
          for (std::size_t column = 0; column < simd::width; ++column) {
            const std::size_t query = t + query_of(half, column);
            if (query < packing_.T) simd::store(to[query] + channel, std::bit_cast<Floats>(tile[column]) * scale, part);
          }
        });
      }
    }
  }

  const Head& head_;
  const Dropout& dropout_;
  TilePacking packing_;
  Buffers buffers_;
};

}  // namespace

std::size_t backward_bytes(const AttentionShape& shape) { return Buffers(TilePacking(shape), BumpAllocator()).bytes; }

void backward(const Head& head, const Dropout& dropout, Span<std::byte> workspace, const AttentionBackwardInputs<bf16>& in,
              bf16* dqkv) {
  const amx::Registers registers;
  HeadBackward(head, dropout, workspace)(in, dqkv);
}

}  // namespace shoal::kernels::attention::tiled

#endif
