// SPDX-License-Identifier: Apache-2.0
#include "shoal/pipeline/buffer_counts.hpp"

#include <numeric>

namespace shoal::pipeline {

std::size_t Buffers::total() const {
  const auto sum = [](const std::vector<std::size_t>& counts) {
    return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  };
  return sum(activations) + sum(gradients) + sent_activations + sent_gradients + skip.activations + skip.gradients +
         skip.sent_activations + skip.sent_gradients;
}

}  // namespace shoal::pipeline
