// SPDX-License-Identifier: Apache-2.0
// How long a measurement of peak performance is.
#pragma once

#include <cstddef>

namespace shoal::kernels {

/// Number of iterations that take about `wanted` seconds, where seconds_of(iterations) measures some. The measurement also
/// warms up the arithmetic units.
template <class SecondsOf>
std::size_t iterations_of(double wanted, const SecondsOf& seconds_of) {
  std::size_t iterations = 64;
  double seconds = seconds_of(iterations);
  while (seconds < wanted / 8) seconds = seconds_of(iterations *= 2);
  return static_cast<std::size_t>(static_cast<double>(iterations) * wanted / seconds) + 1;
}

}  // namespace shoal::kernels
