// SPDX-License-Identifier: Apache-2.0
// The sum of what several ranks have sent, in the order of the reproducible tree (comm/tree_reduce.hpp), in one pass: each
// term is read once, and only the sum is written.
#pragma once

#include <cstddef>

#include "shoal/base/types.hpp"

namespace shoal::kernels {

/// The terms of a sum, arrays of the same length.
struct TreeTerms {
  static constexpr std::size_t most = 16;
  std::size_t count = 0;  ///< 1 ... most
  const void* at[most] = {};
};

/// sum = the terms' sum by a binary tree over their indices: neighbours are added, then neighbouring sums of two, then of
/// four, and so on; a last one without a partner moves up. So the bits are those of count - 1 calls of add()
/// (kernels/storage.hpp): additions in fp32, and each of them is rounded to the type. n elements. `sum` may be one of the
/// terms. Fails if count is not 1 ... most.
void tree_sum(DType type, std::size_t n, const TreeTerms& terms, void* sum);

}  // namespace shoal::kernels
