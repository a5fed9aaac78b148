// SPDX-License-Identifier: Apache-2.0
// Used by all tests of the reproducible tree: values, and the same tree computed by one rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "shoal/base/types.hpp"

namespace shoal::comm {

/// Values of many magnitudes, so that another order of summation gives other bits.
template <typename T>
std::vector<T> random_numbers(std::size_t seed, std::size_t n) {
  std::vector<T> values(n);
  std::uint64_t state = 0x9e3779b97f4a7c15U * (seed + 1);
  for (T& value : values) {
    state = state * 6364136223846793005U + 1442695040888963407U;  // Knuth's generator; its high bits are random
    const auto unit = static_cast<float>(static_cast<std::int32_t>(state >> 32U)) * 0x1p-31F;
    value = T(unit * static_cast<float>(1U << (state >> 28U) % 12U));
  }
  return values;
}

/// The sum along the binary tree over the indices: low bits first, each sum rounded to T; missing leaves are skipped.
template <typename T>
std::vector<T> serial_tree(std::vector<std::vector<T>> leaves) {
  while (leaves.size() > 1) {
    std::vector<std::vector<T>> sums;
    for (std::size_t i = 0; i < leaves.size(); i += 2) {
      sums.push_back(leaves[i]);
      if (i + 1 == leaves.size()) continue;
      for (std::size_t k = 0; k < sums.back().size(); ++k) {
        sums.back()[k] = T(static_cast<float>(sums.back()[k]) + static_cast<float>(leaves[i + 1][k]));
      }
    }
    leaves = std::move(sums);
  }
  return leaves.front();
}

}  // namespace shoal::comm
