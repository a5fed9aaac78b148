// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/cross_entropy.hpp"

#include <algorithm>
#include <limits>

#include "kernels/common/instances.hpp"
#include "kernels/cpu/vectors/chain_sums.hpp"
#include "kernels/cpu/vectors/loops.hpp"
#include "kernels/cpu/vectors/simd.hpp"
#include "kernels/rules/functions.hpp"
#include "kernels/rules/softmax.hpp"

namespace shoal::kernels {

using simd::broadcast;
using simd::Floats;
using simd::for_vectors;
using simd::load;
using simd::store;

namespace {

/// Reads the row twice. If there is a NaN the sum is NaN, whether or not the maximum is.
SHOAL_INLINE rules::Normalizer normalizer(std::size_t V, const float* x) {
  constexpr float lowest = -std::numeric_limits<float>::infinity();
  Floats largest[4] = {broadcast(lowest), broadcast(lowest), broadcast(lowest), broadcast(lowest)};
  for_vectors(V, [&](std::size_t i, auto part) {
    Floats v = load(x + i, part);
    if constexpr (part.partial) v = simd::select(simd::first(part.lanes), v, broadcast(lowest));
    Floats& among = largest[i / simd::width % 4];
    among = simd::max(v, among);
  });
  const float top = simd::max(simd::max(simd::max(largest[0], largest[1]), simd::max(largest[2], largest[3])));
  ChainSums sums;
  for_vectors(V, [&](std::size_t i, auto part) {
    Floats e = rules::exp(load(x + i, part) - top);
    if constexpr (part.partial) e = simd::select(simd::first(part.lanes), e, Floats{});
    sums.at(i) += e;
  });
  return {top, sums.total()};
}

/// -ln softmax(x)[target].
SHOAL_INLINE float loss_of(const rules::Normalizer& row, float target_logit) {
  return rules::log(broadcast(row.sum))[0] + (row.largest - target_logit);
}

}  // namespace

void cross_entropy_forward(RowShape shape, const CrossEntropyInputs& in, float* losses) {
  const std::size_t V = shape.C;
  for_rows("cross_entropy_forward", shape.rows, V, [=](std::size_t row) {
    const float* const x = in.logits + row * in.stride;
    losses[row] = loss_of(normalizer(V, x), x[in.targets[row]]);
  });
}

template <typename T>
void cross_entropy(RowShape shape, const CrossEntropyInputs& in, float scale, const CrossEntropyOutputs<T>& out) {
  const std::size_t V = shape.C;
  for_rows("cross_entropy", shape.rows, V, [=](std::size_t row) {
    const float* const x = in.logits + row * in.stride;
    T* const dx = out.dlogits + row * in.stride;
    const std::int32_t target = in.targets[row];
    const float target_logit = x[target];  // read before dx, which may be x, is written
    const rules::Normalizer norm = normalizer(V, x);
    out.losses[row] = loss_of(norm, target_logit);
    const float factor = scale / norm.sum;
    for_vectors(
        V, [=](std::size_t i, auto part) { store(dx + i, rules::exp(load(x + i, part) - norm.largest) * factor, part); });
    std::fill(dx + V, dx + in.stride, T());
    dx[target] = T(rules::exp(broadcast(target_logit - norm.largest))[0] * factor - scale);
  });
}

SHOAL_FOR_TYPES(cross_entropy);

}  // namespace shoal::kernels
