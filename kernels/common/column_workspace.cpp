// SPDX-License-Identifier: Apache-2.0
#include "kernels/common/column_workspace.hpp"

#include "kernels/rules/row_groups.hpp"
#include "shoal/base/error.hpp"
#include "shoal/kernels/layernorm.hpp"
#include "shoal/kernels/pointwise.hpp"

namespace shoal::kernels {

std::size_t column_sum_workspace_bytes(RowShape shape) { return row_groups(shape.rows) * shape.C * sizeof(float); }

std::size_t layernorm_workspace_bytes(RowShape shape) { return row_groups(shape.rows) * 2 * shape.C * sizeof(float); }

float* partial_sums_in(Span<std::byte> workspace, std::size_t bytes, const char* label, RowShape shape) {
  require(workspace.size() >= bytes, label, ": a workspace of ", workspace.size(), " bytes for ", shape.rows, " x ",
          shape.C);
  return reinterpret_cast<float*>(workspace.data());
}

}  // namespace shoal::kernels
