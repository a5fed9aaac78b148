// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/embedding.hpp"

#include "kernels/common/instances.hpp"
#include "kernels/portable/launch.hpp"

namespace shoal::kernels {

using namespace portable;

template <typename T>
void embedding_forward(const EmbeddingShape& shape, const std::int32_t* tokens, const EmbeddingTables<T>& tables, T* x) {
  const std::size_t positions = shape.T, C = shape.C;
  for_teams(
      "embedding_forward", shape.B * positions, 0, SHOAL_LAMBDA(std::size_t row, const Team& team) {
        const T* const token = tables.token + static_cast<std::size_t>(tokens[row]) * C;
        const T* const position = tables.position == nullptr ? nullptr : tables.position + row % positions * C;
        team.each(C, [&](std::size_t i) {
          x[row * C + i] =
              position == nullptr ? token[i] : T(static_cast<float>(token[i]) + static_cast<float>(position[i]));
        });
      });
}

SHOAL_FOR_TYPES(embedding_forward);

}  // namespace shoal::kernels
