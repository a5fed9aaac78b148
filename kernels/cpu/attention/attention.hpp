// SPDX-License-Identifier: Apache-2.0
// The common parts of forward and backward: how a head is found in [B, T, 3C], and how the heads of a layer are distributed
// over threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "kernels/common/parallel_for.hpp"
#include "kernels/cpu/attention/attention_tiles.hpp"
#include "kernels/cpu/vectors/amx.hpp"
#include "kernels/rules/functions.hpp"
#include "shoal/base/error.hpp"
#include "shoal/kernels/attention.hpp"

namespace shoal::kernels::attention {

using rules::log2e;
inline constexpr float ln2 = 0x1.62e43p-1F;

/// One head of one sequence.
struct Head {
  const AttentionShape& shape;
  std::size_t b, head;
  Head(const AttentionShape& s, std::size_t index) : shape(s), b(index / s.NH), head(index % s.NH) {}

  std::size_t size() const { return shape.C / shape.NH; }
  /// 1 / sqrt(HS)
  float scale() const { return 1.0F / std::sqrt(static_cast<float>(size())); }
  std::size_t index() const { return b * shape.NH + head; }

  /// Its rows of q (part 0), k (1) or v (2) in [B, T, 3C].
  template <typename T>
  Rows<T> of_qkv(T* qkv, std::size_t part) const {
    const std::size_t stride = 3 * shape.C;
    return {qkv + b * shape.T * stride + part * shape.C + head * size(), shape.T, size(), stride};
  }
  /// Its rows in [B, T, C].
  template <typename T>
  Rows<T> of_out(T* out) const {
    return {out + b * shape.T * shape.C + head * size(), shape.T, size(), shape.C};
  }

  /// Dropout's factor of the probability at (row, column): 1 / (1 - p) if it is kept, else 0.
  float kept(const Dropout& d, std::size_t row, std::size_t column) const {
    const std::uint64_t element = (static_cast<std::uint64_t>(head) * shape.T + row) * shape.T + column;
    return dropout_keep(d, d.first_sample + static_cast<std::uint32_t>(b), element) ? 1.0F / (1.0F - d.probability) : 0.0F;
  }
  /// The factors of sixteen neighbouring columns of a row, and of sixteen neighbouring rows of a column.
  SHOAL_INLINE Floats kept_in_row(const Dropout& d, std::size_t row, std::size_t column) const {
    std::array<float, simd::width> factors;
    for (std::size_t l = 0; l < simd::width; ++l) factors[l] = kept(d, row, column + l);
    return simd::load(factors.data());
  }
  SHOAL_INLINE Floats kept_in_column(const Dropout& d, std::size_t row, std::size_t column) const {
    std::array<float, simd::width> factors;
    for (std::size_t l = 0; l < simd::width; ++l) factors[l] = kept(d, row + l, column);
    return simd::load(factors.data());
  }
};

/// Computes what backward needs of each query: dout . out, which the derivative of the softmax subtracts from the whole row
/// (Dao et al., Algorithm 4, line 19), and the log-sum-exp in base 2. Both are zero from position T to `positions`.
template <typename T>
void prepare_rows(const Head& head, std::size_t positions, const AttentionBackwardInputs<T>& in, float* dout_out,
                  float* exponents) {
  const Rows<const T> o = head.of_out(in.out), d = head.of_out(in.dout);
  for (std::size_t t = 0; t < positions; ++t) {
    const bool exists = t < head.shape.T;
    Floats sum{};
    if (exists) {
      o.prefetch_after(t);
      simd::for_vectors(head.size(), [&](std::size_t c, auto part) {
        sum = simd::fma(simd::load(o[t] + c, part), simd::load(d[t] + c, part), sum);
      });
    }
    dout_out[t] = simd::sum(sum);
    exponents[t] = exists ? in.logsumexp[head.index() * head.shape.T + t] * log2e : 0.0F;
  }
}

/// The instructions that compute the matrix products of a head: vector instructions, or AMX's tiles.
enum class Backend { vectors, tiles };
/// True for the types for which this build can use tiles.
#if defined(SHOAL_AMX)
template <typename T>
inline constexpr bool has_tiles = std::is_same_v<T, bf16>;
#else
template <typename T>
inline constexpr bool has_tiles = false;
#endif
/// The backend that this process uses for T.
template <typename T>
Backend backend() {
  return has_tiles<T> && amx::available() ? Backend::tiles : Backend::vectors;
}

/// Calls body(head, workspace of the thread) for all heads of all sequences. A launch has enough heads to keep each thread
/// busy for about 10 ms, and at least one for each thread. products: matrix products of size T x T/2 x HS for each head.
template <typename T, class Body>
void for_heads(const char* label, const AttentionShape& s, std::size_t products, Span<std::byte> workspace,
               const Body& body) {
  const std::size_t per_thread = attention_workspace_bytes<T>(s) / static_cast<std::size_t>(threads());
  require(workspace.size() >= attention_workspace_bytes<T>(s), label, ": ", workspace.size(), " bytes of workspace; ",
          attention_workspace_bytes<T>(s), " are needed");
  constexpr std::size_t flops_per_launch = dtype_of<T> == DType::bf16 ? 2'500'000'000 : 1'500'000'000;
  const std::size_t flops_per_head = products * s.T * s.T * (s.C / s.NH);
  const std::size_t heads = s.B * s.NH;
  const std::size_t step = static_cast<std::size_t>(threads()) *
                           std::max<std::size_t>(1, flops_per_launch / std::max<std::size_t>(1, flops_per_head));
  for (std::size_t first = 0; first < heads; first += step) {
    parallel_for(label, std::min(step, heads - first), [&](std::size_t item, int thread) {
      body(Head(s, first + item), workspace.subspan(static_cast<std::size_t>(thread) * per_thread, per_thread));
    });
  }
}

/// Bytes of workspace of one thread, by the backend that needs more: so the memory plan does not depend on the processor.
template <typename T>
std::size_t forward_bytes(const AttentionShape& shape);
template <typename T>
std::size_t backward_bytes(const AttentionShape& shape);

/// attention_forward() and attention_backward() by a given backend: vectors or backend<T>().
template <typename T>
void forward_by(Backend by, const AttentionShape& shape, const T* qkv, const AttentionOutputs<T>& out,
                const Dropout& dropout, Span<std::byte> workspace);
template <typename T>
void backward_by(Backend by, const AttentionShape& shape, const AttentionBackwardInputs<T>& in, T* dqkv,
                 const Dropout& dropout, Span<std::byte> workspace);

}  // namespace shoal::kernels::attention
