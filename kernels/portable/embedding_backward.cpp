// SPDX-License-Identifier: Apache-2.0
#include "kernels/common/instances.hpp"
#include "kernels/portable/column_sums.hpp"
#include "kernels/portable/launch.hpp"
#include "shoal/kernels/embedding.hpp"

namespace shoal::kernels {

using namespace portable;

// Several rows may have the same token. So each team takes some columns, and adds them over all rows in their order.
template <typename T>
void embedding_backward(const EmbeddingShape& shape, const std::int32_t* tokens, const T* dx,
                        const EmbeddingGradients& gradients) {
  const std::size_t rows = shape.B * shape.T, positions = shape.T, C = shape.C;
  for_teams(
      "embedding_backward", columns::tiles(C), 0, SHOAL_LAMBDA(std::size_t tile, const Team& team) {
        const Range columns = columns::of_tile(tile, C);
        for (std::size_t row = 0; row < rows; ++row) {
          const T* const gradient = dx + row * C + columns.begin;
          float* const token = gradients.token + static_cast<std::size_t>(tokens[row]) * C + columns.begin;
          float* const position =
              gradients.position == nullptr ? nullptr : gradients.position + row % positions * C + columns.begin;
          const bool first_sample = row < positions;
          team.each(columns.size(), [&](std::size_t i) {
            const float d = gradient[i];
            token[i] += d;
            if (position != nullptr) position[i] = first_sample ? d : position[i] + d;
          });
        }
      });
}

SHOAL_FOR_TYPES(embedding_backward);

}  // namespace shoal::kernels
