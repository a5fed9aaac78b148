// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/attention/attention_amx.hpp"
#include "shoal/base/names.hpp"

namespace shoal::kernels {

namespace attention {

namespace {

constexpr std::size_t query_rows = 4 * block_rows;  // of a strip of scores
constexpr std::size_t key_columns = 512;            // of a strip: its scores and keys stay in the L1 and L2 caches
constexpr std::size_t score_stride = key_columns + simd::width;  // no power of two, so that rows are in different cache sets

/// The buffers of a thread for one head.
template <class P>
struct Buffers {
  Word *q, *k_transposed, *v_paired;
  float* scores;         // [query_rows, score_stride]; overwritten by the probabilities, in words
  float* out;            // [query_rows, columns of a head]
  float *maximum, *sum;  // [query_rows], of each row's scores so far, in base 2
  std::size_t bytes;

  Buffers(const VectorPacking<P>& p, BumpAllocator memory) {
    q = memory.take<Word>(p.natural_size());
    k_transposed = memory.take<Word>(p.transposed_size());
    v_paired = memory.take<Word>(p.paired_size());
    scores = memory.take<float>(query_rows * score_stride);
    out = memory.take<float>(query_rows * p.columns());
    maximum = memory.take<float>(query_rows);
    sum = memory.take<float>(query_rows);
    bytes = memory.used();
  }
};

/// Queries q0 .. q0 + rows - 1 and keys k0 .. k1 - 1 of a head: rows and columns of its scores.
struct Strip {
  std::size_t q0, rows, k0, k1;
  /// One past the last column that rows r .. r + count - 1 attend to, counted from k0.
  std::size_t reach(std::size_t r, std::size_t count) const {
    const std::size_t end = std::min(k1, q0 + std::min(r + count, rows));
    return end > k0 ? end - k0 : 0;
  }
};

template <typename T>
class HeadForward {
  using P = Operand<T>;

 public:
  HeadForward(const Head& head, const Dropout& dropout, Span<std::byte> workspace)
      : head_(head),
        dropout_(dropout),
        packing_{head.shape.T, head.size()},
        buffers_(packing_, BumpAllocator(workspace)),
        scale_(head.scale() * log2e) {}

  void operator()(const T* qkv, const AttentionOutputs<T>& out) {
    pack_natural(packing_, head_.of_qkv(qkv, 0), buffers_.q);
    pack_transposed(packing_, head_.of_qkv(qkv, 1), buffers_.k_transposed);
    pack_paired(packing_, head_.of_qkv(qkv, 2), buffers_.v_paired);
    const std::size_t T_ = packing_.T;
    for (std::size_t q0 = 0; q0 < T_; q0 += query_rows) {
      const std::size_t rows = std::min(query_rows, T_ - q0);
      for (std::size_t k0 = 0; k0 < q0 + rows; k0 += key_columns) {
        const Strip strip{q0, rows, k0, std::min(k0 + key_columns, q0 + rows)};
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
    for (std::size_t column = 0; column < s.k1 - s.k0; column += tile_columns) {
      const Right keys{buffers_.k_transposed + (s.k0 + column) * packing_.words(), tile_columns};
      for (std::size_t r = 0; r < s.rows; r += block_rows) {
        const std::size_t reach = s.reach(r, block_rows);
        if (reach <= column) continue;
        const Left queries{buffers_.q + (s.q0 + r) * packing_.row_words(), packing_.row_words(), 1};
        multiply<P, Write::over>(queries, keys, packing_.words(),
                                 {buffers_.scores + r * score_stride + column, score_stride},
                                 std::min(tile_columns, round_up(reach - column, simd::width)));
      }
    }
  }

  /// Replaces a row of scores by their exponentials relative to the row's maximum so far, and rescales the row's earlier
  /// sums to this maximum.
  void exponentiate(const Strip& s, std::size_t r) {
    float* const row = buffers_.scores + r * score_stride;
    auto* const words = reinterpret_cast<Word*>(row);
    const std::size_t reach = s.reach(r, 1),
                      padded = round_up(s.reach(r / block_rows * block_rows, block_rows), simd::width);
    const std::size_t whole = reach / simd::width * simd::width;
    const auto last = simd::first(reach - whole);
    const Floats none = simd::broadcast(-std::numeric_limits<float>::infinity());
    if (reach > 0) {
      Floats largest = none;
      for (std::size_t c = 0; c < whole; c += simd::width) largest = simd::max(largest, simd::load(row + c));
      if (whole < reach) largest = simd::max(largest, simd::select(last, simd::load(row + whole), none));
      const float before = buffers_.maximum[r],
                  now = std::max(simd::max(largest) * scale_, s.k0 == 0 ? simd::max(none) : before);
      const Floats scale = simd::broadcast(scale_), maximum = simd::broadcast(now);
      Floats sum{};
      const bool drops = dropout_.active();  // a copy: the compiler must assume that put() changes the member
      const auto put = [&, drops](std::size_t c, Floats p) {
        sum += p;
        if (drops) p *= head_.kept_in_row(dropout_, s.q0 + r, s.k0 + c);
        P::put(words, c, p);
      };
      const auto power = [&](std::size_t c) { return exp2_of_negative(simd::fma(simd::load(row + c), scale, -maximum)); };
      for (std::size_t c = 0; c < whole; c += simd::width) put(c, power(c));
      if (whole < reach) put(whole, simd::select(last, power(whole), Floats{}));
      if (s.k0 == 0) {
        buffers_.sum[r] = simd::sum(sum);
      } else {
        const float correction = exp2_of_negative(simd::broadcast(before - now))[0];
        buffers_.sum[r] = buffers_.sum[r] * correction + simd::sum(sum);
        float* const out = buffers_.out + r * packing_.columns();
        for (std::size_t c = 0; c < packing_.columns(); c += simd::width)
          simd::store(out + c, simd::load(out + c) * correction);
      }
      buffers_.maximum[r] = now;
    }
    for (std::size_t c = round_up(reach, simd::width); c < padded; c += simd::width) P::put(words, c, Floats{});
  }

  /// out = or += probabilities v.
  void add_values(const Strip& s) {
    const Right values{buffers_.v_paired + s.k0 / P::per_word * packing_.columns(), packing_.columns()};
    for (std::size_t r = 0; r < s.rows; r += block_rows) {
      const std::size_t steps = (s.reach(r, block_rows) + P::per_word - 1) / P::per_word;
      const Left probabilities{reinterpret_cast<const Word*>(buffers_.scores) + r * score_stride, score_stride, 1};
      const Result out{buffers_.out + r * packing_.columns(), packing_.columns()};
      if (s.k0 == 0) {
        multiply<P, Write::over>(probabilities, values, steps, out, packing_.columns());
      } else {
        multiply<P, Write::add>(probabilities, values, steps, out, packing_.columns());
      }
    }
  }

  void finish(std::size_t q0, std::size_t rows, const AttentionOutputs<T>& out) {
    const Rows<T> to = head_.of_out(out.out);
    for (std::size_t r = 0; r < rows; ++r) {
      const float sum = buffers_.sum[r], factor = 1.0F / sum;
      const float* const from = buffers_.out + r * packing_.columns();
      to.template prefetch_after<Access::write>(q0 + r);
      simd::for_vectors(packing_.HS,
                        [&](std::size_t c, auto part) { simd::store(to[q0 + r] + c, simd::load(from + c) * factor, part); });
      out.logsumexp[head_.index() * packing_.T + q0 + r] = buffers_.maximum[r] * ln2 + rules::log(simd::broadcast(sum))[0];
    }
  }

  const Head& head_;
  const Dropout& dropout_;
  VectorPacking<P> packing_;
  Buffers<P> buffers_;
  float scale_;
};

}  // namespace

template <typename T>
std::size_t forward_bytes(const AttentionShape& s) {
  const std::size_t bytes = Buffers<Operand<T>>({s.T, s.C / s.NH}, BumpAllocator()).bytes;
  if constexpr (has_tiles<T>) return std::max(bytes, tiled::forward_bytes(s));
  return bytes;
}
template std::size_t forward_bytes<float>(const AttentionShape&);
template std::size_t forward_bytes<bf16>(const AttentionShape&);
template std::size_t forward_bytes<f16>(const AttentionShape&);

template <typename T>
void forward_by(Backend by, const AttentionShape& shape, const T* qkv, const AttentionOutputs<T>& out,
                const Dropout& dropout, Span<std::byte> workspace) {
  require(by == Backend::vectors || by == backend<T>(), "attention: no tiles for ", name_of(dtype_of<T>),
          " on this machine");
  for_heads<T>("attention", shape, 2, workspace, [&](const Head& head, Span<std::byte> mine) {
    if constexpr (has_tiles<T>) {
      if (by == Backend::tiles) return tiled::forward(head, dropout, mine, qkv, out);
    }
    HeadForward<T>(head, dropout, mine)(qkv, out);
  });
}
template void forward_by<float>(Backend, const AttentionShape&, const float*, const AttentionOutputs<float>&, const Dropout&,
                                Span<std::byte>);
template void forward_by<bf16>(Backend, const AttentionShape&, const bf16*, const AttentionOutputs<bf16>&, const Dropout&,
                               Span<std::byte>);
template void forward_by<f16>(Backend, const AttentionShape&, const f16*, const AttentionOutputs<f16>&, const Dropout&,
                              Span<std::byte>);

}  // namespace attention

}  // namespace shoal::kernels
