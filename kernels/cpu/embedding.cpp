// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/embedding.hpp"

#include <algorithm>

#include "kernels/common/instances.hpp"
#include "kernels/cpu/vectors/loops.hpp"
#include "kernels/cpu/vectors/simd.hpp"

namespace shoal::kernels {

using simd::Floats;
using simd::for_vectors;
using simd::load;
using simd::store;

template <typename T>
void embedding_forward(const EmbeddingShape& shape, const std::int32_t* tokens, const EmbeddingTables<T>& tables, T* x) {
  const std::size_t positions = shape.T, C = shape.C;
  for_rows("embedding_forward", shape.B * positions, C, [=](std::size_t row) {
    const T* const token = tables.token + static_cast<std::size_t>(tokens[row]) * C;
    const T* const position = tables.position == nullptr ? nullptr : tables.position + row % positions * C;
    T* const sum = x + row * C;
    for_vectors(C, [=](std::size_t i, auto part) {
      const Floats v = load(token + i, part);
      store(sum + i, position == nullptr ? v : v + load(position + i, part), part);
    });
  });
}

// Several rows may have the same token. So each thread takes some columns, and adds them over all rows in their order.
template <typename T>
void embedding_backward(const EmbeddingShape& shape, const std::int32_t* tokens, const T* dx,
                        const EmbeddingGradients& gradients) {
  constexpr std::size_t columns_per_item = 192;
  const std::size_t rows = shape.B * shape.T, positions = shape.T, C = shape.C;
  parallel_for("embedding_backward", (C + columns_per_item - 1) / columns_per_item, [=](std::size_t item) {
    const std::size_t begin = item * columns_per_item;
    const std::size_t columns = std::min(columns_per_item, C - begin);
    for (std::size_t row = 0; row < rows; ++row) {
      const T* const gradient = dx + row * C + begin;
      float* const token = gradients.token + static_cast<std::size_t>(tokens[row]) * C + begin;
      float* const position = gradients.position == nullptr ? nullptr : gradients.position + row % positions * C + begin;
      const bool first_sample = row < positions;
      for_vectors(columns, [=](std::size_t i, auto part) {
        const Floats d = load(gradient + i, part);
        store(token + i, load(token + i, part) + d, part);
        if (position != nullptr) store(position + i, first_sample ? d : load(position + i, part) + d, part);
      });
    }
  });
}

SHOAL_FOR_TYPES(embedding_forward);
SHOAL_FOR_TYPES(embedding_backward);

}  // namespace shoal::kernels
