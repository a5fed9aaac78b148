// SPDX-License-Identifier: Apache-2.0
// Parallel loops over elements and over rows.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/common/parallel_for.hpp"

namespace shoal::kernels {

/// Elements of a work item: enough to make its launch cheap, few enough to balance small tensors over the threads.
inline constexpr std::size_t item_elements = 16384;

/// Calls body(begin, count) for consecutive parts of n elements.
template <class Body>
void for_elements(const char* label, std::size_t n, const Body& body) {
  parallel_for(label, (n + item_elements - 1) / item_elements, [n, &body](std::size_t item) {
    const std::size_t begin = item * item_elements;
    body(begin, std::min(item_elements, n - begin));
  });
}

/// Calls body(row) for each row, of C elements.
template <class Body>
void for_rows(const char* label, std::size_t rows, std::size_t C, const Body& body) {
  const std::size_t per_item = std::max<std::size_t>(1, item_elements / std::max<std::size_t>(1, C));
  parallel_for(label, (rows + per_item - 1) / per_item, [=, &body](std::size_t item) {
    const std::size_t end = std::min(rows, (item + 1) * per_item);
    for (std::size_t row = item * per_item; row < end; ++row) body(row);
  });
}

}  // namespace shoal::kernels
