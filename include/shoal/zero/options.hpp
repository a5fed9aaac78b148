// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "shoal/base/memory.hpp"
#include "shoal/kernels/quantize.hpp"

namespace shoal::zero {

/// offload.*: where states wait while they are not used (Rajbhandari et al. 2021, "ZeRO-Infinity"; Ren et al. 2021,
/// "ZeRO-Offload"). No value changes a bit of a result.
struct OffloadOptions {
  Where optimizer = Where::device;  ///< moments, masters of 16-bit parameters; gradients in stages 2 and 3 (stages 1 to 3)
  double optimizer_ratio = 1;       ///< part of the optimizer's states: that of the last units (Twin-Flow)
  Where params = Where::device;     ///< parameters (stage 3)
};

struct ZeroOptions {
  int stage = 0;                      ///< a row of zero/stages.hpp
  std::size_t prefetch_units = 1;     ///< units gathered ahead of the one that runs (stage 3)
  double max_live_mb = 0;             ///< most gathered parameters, in 10^6 bytes; 0: as much as prefetch_units takes
  std::size_t persist_below = 0;      ///< units of fewer elements stay whole (stage 3)
  bool reshard_after_forward = true;  ///< false: a gathered unit is kept until its backward is over (stage 3)
  /// One rank gathers, too: its parameters wait in a tier that kernels do not reach, and come up for each use (stage 3).
  bool gathers_alone = false;
  /// Number of consecutive ranks that keep a second partition of the parameters (stage 3; zero/secondary.hpp). There is none
  /// if it is 0, or not less than the number of ranks. whole_node means the ranks of a node, and is replaced by their number
  /// before an engine is made.
  std::size_t hpz_size = 0;
  static constexpr std::size_t whole_node = static_cast<std::size_t>(-1);

  // Quantized messages (zero/quantization.hpp).
  int qwz = 0;                    ///< bits in which parameters are gathered: 8, 4; 0: not quantized (stage 3)
  int qgz = 0;                    ///< bits in which gradients are reduced across nodes: 8, 4; 0: not quantized
  int qgz_node = 8;               ///< and within nodes
  std::size_t quant_block = 256;  ///< elements with one scale
  kernels::QuantRounding quant_rounding = kernels::QuantRounding::accurate;
  bool quant_feedback = false;  ///< quantization errors of a gradient are added to the next one
};

/// Returns true if a group of this many ranks has a second partition.
constexpr bool has_secondary(std::size_t hpz_size, int ranks) {
  return hpz_size > 0 && hpz_size < static_cast<std::size_t>(ranks);
}
/// Returns true if the second partition, if there is one, divides the ranks evenly.
constexpr bool hpz_divides(std::size_t hpz_size, int ranks) {
  return !has_secondary(hpz_size, ranks) || static_cast<std::size_t>(ranks) % hpz_size == 0;
}

}  // namespace shoal::zero
