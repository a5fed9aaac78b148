// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shoal::zero {

struct ZeroOptions {
  int stage = 0;  ///< a row of zero/stages.hpp
};

}  // namespace shoal::zero
