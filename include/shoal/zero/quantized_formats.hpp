// SPDX-License-Identifier: Apache-2.0
// The formats of quantized messages that the options of ZeRO++ ask for (zero/quantization.hpp).
#pragma once

#include <optional>

#include "shoal/comm/reducer.hpp"
#include "shoal/kernels/quantize.hpp"
#include "shoal/zero/options.hpp"

namespace shoal::zero {

/// Format in which parameters are gathered; none without qwZ.
std::optional<kernels::QuantFormat> gather_format(const ZeroOptions& options);

struct QuantizedReduction {
  comm::ReduceFormats formats;
  int ranks_per_node = 1;
  bool feedback = false;
};
/// How gradients are reduced with qgZ; none without it.
std::optional<QuantizedReduction> quantized_reduction(const ZeroOptions& options, int ranks_per_node);

}  // namespace shoal::zero
