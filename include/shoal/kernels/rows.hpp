// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace shoal::kernels {

/// The shape of the operands of a kernel that works on rows: `rows` rows of C elements, which follow one another without
/// gaps.
struct RowShape {
  std::size_t rows, C;
};

}  // namespace shoal::kernels
