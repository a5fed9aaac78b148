// SPDX-License-Identifier: Apache-2.0
// Checks of a slice for all optimizers.
#pragma once

#include "shoal/base/error.hpp"
#include "shoal/base/names.hpp"
#include "shoal/optim/optimizer.hpp"

namespace shoal::optim {

inline void check(const Slice& slice, std::size_t moments, const char* optimizer) {
  const std::size_t n = slice.master.size();
  require(slice.gradient.size() == n, optimizer, ": ", slice.gradient.size(), " gradients for ", n, " master parameters");
  require(slice.parameters.empty() || slice.parameters.size() == n * size_of(slice.dtype), optimizer, ": ",
          slice.parameters.size(), " bytes of ", name_of(slice.dtype), " parameters for ", n, " master parameters");
  require(slice.moments.size() == moments, optimizer, ": ", slice.moments.size(), " moments, expected ", moments);
  for (const Span<float>& moment : slice.moments) {
    require(moment.size() == n, optimizer, ": a moment of ", moment.size(), " elements for ", n, " master parameters");
  }
}

/// Address of the rounded copy of the parameters; null if there is none.
inline void* rounded_copy(const Slice& slice) { return slice.parameters.empty() ? nullptr : slice.parameters.data(); }

}  // namespace shoal::optim
