// SPDX-License-Identifier: Apache-2.0
// Softmax of a row.
#pragma once

namespace shoal::kernels::rules {

/// The normalization of a row: softmax(x)[i] = e^(x[i] - largest) / sum.
struct Normalizer {
  float largest, sum;
};

}  // namespace shoal::kernels::rules
