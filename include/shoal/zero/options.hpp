// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "shoal/kernels/quantize.hpp"

namespace shoal::zero {

struct ZeroOptions {
  int stage = 0;                      ///< a row of zero/stages.hpp
  std::size_t prefetch_units = 1;     ///< units gathered ahead of the one that runs (stage 3)
  double max_live_mb = 0;             ///< largest gathered parameters, in units of 10^6 bytes; 0: what prefetch_units takes
  std::size_t persist_below = 0;      ///< units of fewer elements stay whole (stage 3)
  bool reshard_after_forward = true;  ///< false: a gathered unit stays until its backward is over (stage 3)
  /// Neighbouring ranks that keep a second partition of the parameters (stage 3; zero/secondary.hpp). 0: none, as where it
  /// is all ranks or more; whole_node: those of a node, to be replaced by their number before anything is made.
  std::size_t hpz_size = 0;
  static constexpr std::size_t whole_node = static_cast<std::size_t>(-1);

  // Quantized messages (zero/quantization.hpp).
  int qwz = 0;                    ///< bits that parameters are gathered in: 8, 4; 0: as they are (stage 3)
  int qgz = 0;                    ///< bits that gradients are reduced in across nodes: 8, 4; 0: as they are
  int qgz_node = 8;               ///< and within nodes
  std::size_t quant_block = 256;  ///< elements that share a scale
  kernels::QuantRounding quant_rounding = kernels::QuantRounding::accurate;
  bool quant_feedback = false;  ///< what quantization took from a gradient is added to the next
};

/// Whether so many ranks have a second partition.
constexpr bool has_secondary(std::size_t hpz_size, int ranks) {
  return hpz_size > 0 && hpz_size < static_cast<std::size_t>(ranks);
}
constexpr bool hpz_divides(std::size_t hpz_size, int ranks) {
  return !has_secondary(hpz_size, ranks) || static_cast<std::size_t>(ranks) % hpz_size == 0;
}

}  // namespace shoal::zero
