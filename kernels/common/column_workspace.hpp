// SPDX-License-Identifier: Apache-2.0
// Workspaces of the kernels that sum columns over rows. They hold a partial sum for each column and each group of rows
// (rules/row_groups.hpp).
#pragma once

#include <cstddef>

#include "shoal/base/types.hpp"
#include "shoal/kernels/rows.hpp"

namespace shoal::kernels {

/// Where the partial sums of kernel `label` are: at the workspace's start. Fails if the workspace is smaller than `bytes`.
float* partial_sums_in(Span<std::byte> workspace, std::size_t bytes, const char* label, RowShape shape);

}  // namespace shoal::kernels
