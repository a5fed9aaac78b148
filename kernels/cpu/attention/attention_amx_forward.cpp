// SPDX-License-Identifier: Apache-2.0
// Forward by AMX: 32 queries at a time, with strips of keys.
#include "kernels/cpu/attention/attention_amx.hpp"

#if defined(SHOAL_AMX)

namespace shoal::kernels::attention::tiled {

namespace {

constexpr std::size_t key_columns = 256;                         // of a strip: its scores stay in L1
constexpr std::size_t score_stride = key_columns + simd::width;  // no power of two, so that rows are in different cache sets

/// The buffers of a thread for one head.
struct Buffers {
  bf16 *q, *k, *v;
  float* scores;         // [block, score_stride]; overwritten by the probabilities, in bf16
  float* out;            // [block, channels]
  float *maximum, *sum;  // [block], of each row's scores so far, in base 2
  std::size_t bytes;

  Buffers(const TilePacking& p, BumpAllocator memory) {
    q = memory.take<bf16>(p.size());
    k = memory.take<bf16>(p.size());
    v = memory.take<bf16>(p.size());
    scores = memory.take<float>(block * score_stride);
    out = memory.take<float>(block * p.channels());
    maximum = memory.take<float>(block);
    sum = memory.take<float>(block);
    bytes = memory.used();
  }
};

/// Queries q0 .. q0 + 31 and keys k0 .. k1 - 1; q0, k0 and k1 are multiples of 32. The last block of the last strip is on
/// the diagonal.
struct Strip {
  std::size_t q0, k0, k1;
  bool first() const { return k0 == 0; }
  std::size_t keys() const { return k1 - k0; }
  /// Number of keys that all these queries attend to.
  std::size_t whole() const { return std::min(k1, q0) - k0; }
  bool diagonal() const { return k1 > q0; }
};

class HeadForward {
 public:
  HeadForward(const Head& head, const Dropout& dropout, Span<std::byte> workspace)
      : head_(head),
        dropout_(dropout),
        packing_(head.shape),
        buffers_(packing_, BumpAllocator(workspace)),
        scale_(head.scale() * log2e) {}

  void operator()(const bf16* qkv, const AttentionOutputs<bf16>& out) {
    pack_rows(packing_, head_.of_qkv(qkv, 0), buffers_.q);
    pack_columns(packing_, head_.of_qkv(qkv, 1), buffers_.k);
    pack_pairs(packing_, head_.of_qkv(qkv, 2), buffers_.v);
    for (std::size_t q0 = 0; q0 < packing_.T; q0 += block) {
      const std::size_t rows = std::min(block, packing_.T - q0);
      for (std::size_t k0 = 0; k0 < q0 + block; k0 += key_columns) {
        const Strip strip{q0, k0, std::min(k0 + key_columns, q0 + block)};
        score(strip);
        for (std::size_t r = 0; r < rows; ++r) exponentiate(strip, r);
        add_values(strip);
      }
      finish(q0, rows, out);
    }
  }

 private:
  /// scores = q k'.
  void score(const Strip& s) {
    const amx::Factor queries = rows_of(packing_, buffers_.q, s.q0);
    for (std::size_t column = 0; column < s.keys(); column += block) {
      amx::multiply<Write::over>(queries, columns_of(packing_, buffers_.k, s.k0 + column), packing_.channel_steps(),
                                 {buffers_.scores + column, score_stride});
    }
  }

  /// Replaces a row of scores by their exponentials relative to the row's maximum so far, and rescales the row's earlier
  /// sums to this maximum.
  void exponentiate(const Strip& s, std::size_t r) {
    float* const row = buffers_.scores + r * score_stride;
    auto* const words = reinterpret_cast<Word*>(row);
    const std::size_t whole = s.whole();
    const Floats none = simd::broadcast(-std::numeric_limits<float>::infinity());
    const auto seen = [r](std::size_t half) {  // lanes, in the block on the diagonal
      return simd::first(r + 1 > half ? std::min(r + 1 - half, simd::width) : 0);
    };

    Floats largest[2] = {none, none};
    for (std::size_t c = 0; c < whole; c += block) {
      largest[0] = simd::max(largest[0], simd::load(row + c));
      largest[1] = simd::max(largest[1], simd::load(row + c + simd::width));
    }
    if (s.diagonal()) {
      largest[0] = simd::max(largest[0], seen(0) ? simd::load(row + whole) : none);
      largest[1] = simd::max(largest[1], seen(simd::width) ? simd::load(row + whole + simd::width) : none);
    }
    const float before = s.first() ? -std::numeric_limits<float>::infinity() : buffers_.maximum[r];
    const float now = std::max(simd::max(simd::max(largest[0], largest[1])) * scale_, before);

    const Floats scale = simd::broadcast(scale_), minus_maximum = -simd::broadcast(now);
    Floats sum[2] = {};
    const auto power = [&](std::size_t c) { return quick_exp2(simd::fma(simd::load(row + c), scale, minus_maximum)); };
    const auto put = [&](std::size_t c, Floats first, Floats second) {
      sum[0] += first;
      sum[1] += second;
      if (dropout_.active()) {
        first *= head_.kept_in_row(dropout_, s.q0 + r, s.k0 + c);
        second *= head_.kept_in_row(dropout_, s.q0 + r, s.k0 + c + simd::width);
      }
      store_words(words + c / 2, rounded(first, second));
    };
    for (std::size_t c = 0; c < whole; c += block) put(c, power(c), power(c + simd::width));
    if (s.diagonal()) {
      put(whole, seen(0) ? power(whole) : Floats{}, seen(simd::width) ? power(whole + simd::width) : Floats{});
    }
    const float total = simd::sum(sum[0] + sum[1]);

    if (s.first()) {
      buffers_.sum[r] = total;
    } else {
      const float correction = quick_exp2(simd::broadcast(before - now))[0];
      buffers_.sum[r] = buffers_.sum[r] * correction + total;
      float* const out = buffers_.out + r * packing_.channels();
      for (std::size_t c = 0; c < packing_.channels(); c += simd::width) {
        simd::store(out + c, simd::load(out + c) * correction);
      }
    }
    buffers_.maximum[r] = now;
  }

  /// out = or += probabilities v.
  void add_values(const Strip& s) {
    constexpr std::size_t row = score_stride * sizeof(float);
    const amx::Factor probabilities{buffers_.scores, row, amx::rows * row, amx::row_bytes};
    const std::size_t steps = s.keys() / amx::depth;
    for (std::size_t channel = 0; channel < packing_.channels(); channel += block) {
      const amx::Factor values = pairs_of(packing_, buffers_.v, s.k0, channel);
      const amx::Result out{buffers_.out + channel, packing_.channels()};
      if (s.first()) {
        amx::multiply<Write::over>(probabilities, values, steps, out);
      } else {
        amx::multiply<Write::add>(probabilities, values, steps, out);
      }
    }
  }

  void finish(std::size_t q0, std::size_t rows, const AttentionOutputs<bf16>& out) {
    const Rows<bf16> to = head_.of_out(out.out);
    for (std::size_t r = 0; r < rows; ++r) {
      const float sum = buffers_.sum[r], factor = 1.0F / sum;
      const float* const from = buffers_.out + r * packing_.channels();
      to.prefetch_after<Access::write>(q0 + r);
      simd::for_vectors(packing_.HS,
                        [&](std::size_t c, auto part) { simd::store(to[q0 + r] + c, simd::load(from + c) * factor, part); });
      out.logsumexp[head_.index() * packing_.T + q0 + r] = buffers_.maximum[r] * ln2 + rules::log(simd::broadcast(sum))[0];
    }
  }

  const Head& head_;
  const Dropout& dropout_;
  TilePacking packing_;
  Buffers buffers_;
  float scale_;
};

}  // namespace

std::size_t forward_bytes(const AttentionShape& shape) { return Buffers(TilePacking(shape), BumpAllocator()).bytes; }

void forward(const Head& head, const Dropout& dropout, Span<std::byte> workspace, const bf16* qkv,
             const AttentionOutputs<bf16>& out) {
  const amx::Registers registers;
  HeadForward(head, dropout, workspace)(qkv, out);
}

}  // namespace shoal::kernels::attention::tiled

#endif
