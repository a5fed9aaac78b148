// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace shoal::zero {

struct ZeroOptions {
  int stage = 0;                      ///< a row of zero/stages.hpp
  std::size_t prefetch_units = 1;     ///< units gathered ahead of the one that runs (stage 3)
  double max_live_mb = 0;             ///< largest gathered parameters, in units of 10^6 bytes; 0: what prefetch_units takes
  std::size_t persist_below = 0;      ///< units of fewer elements stay whole (stage 3)
  bool reshard_after_forward = true;  ///< false: a gathered unit stays until its backward is over (stage 3)
};

}  // namespace shoal::zero
