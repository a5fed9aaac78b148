// SPDX-License-Identifier: Apache-2.0
// The order in which elements are converted to another type, so that it can be done in place.
#pragma once

#include <algorithm>
#include <cstddef>

#include "shoal/base/error.hpp"

namespace shoal::kernels {

/// Calls convert_part(begin, count) for parts of the n elements of x. If y begins where x does, there are several rounds.
/// The first one converts `first_round` elements; its order must be ascending. Each further round converts as many elements
/// as are already done. It overwrites only elements of earlier rounds, so several threads can convert it.
template <typename From, typename To, class ConvertPart>
void convert_in_rounds(std::size_t n, const From* x, const To* y, std::size_t first_round, const ConvertPart& convert_part) {
  if (static_cast<const void*>(x) != static_cast<const void*>(y)) return convert_part(0, n);
  require(n == 0 || sizeof(To) < sizeof(From), "convert: to a larger type in place");
  for (std::size_t done = 0; done < n;) {
    const std::size_t round = std::min(n - done, std::max(done, first_round));
    convert_part(done, round);
    done += round;
  }
}

}  // namespace shoal::kernels
