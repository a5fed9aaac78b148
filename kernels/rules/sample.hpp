// SPDX-License-Identifier: Apache-2.0
// Samples and weights of one granule. The formulas are those of include/shoal/kernels/sample.hpp.
#pragma once

#include <cmath>

#include "kernels/rules/number.hpp"
#include "shoal/kernels/sample.hpp"

namespace shoal::kernels::rules {

SHOAL_FUNCTION std::size_t sampled_granules(const Sample& sample) { return (sample.elements + granule - 1) / granule; }

/// Index of the granule's sampled element in the unit. Multiples of these odd constants modulo 2^32 are spread evenly, from
/// granule to granule and from update to update.
SHOAL_FUNCTION std::size_t sampled_element(const Sample& sample, std::size_t index) {
  const std::size_t begin = index * granule, rest = sample.elements - begin, length = granule < rest ? granule : rest;
  const auto draw = static_cast<std::uint32_t>(index * 2654435769U + sample.updates * 2246822519U);
  return begin + static_cast<std::size_t>((static_cast<std::uint64_t>(draw) * length) >> 32U);
}

/// Where the granule's weight is.
SHOAL_FUNCTION std::size_t weight_of(const Sample& sample, std::size_t index) {
  return index / sample.slots * sample.stride + sample.offset + index % sample.slots;
}

SHOAL_FUNCTION float sample_weight(float second_moment, double mean, double correction, double epsilon) {
  const double moment = second_moment, least = 1e-3 * mean;
  const double divisor = sqrt((moment < least ? least : moment) / correction) + epsilon;
  return mean == 0 ? 0.0F : static_cast<float>(1 / (divisor * divisor));
}

SHOAL_FUNCTION double weighted_square(float weight, float value) {
  return static_cast<double>(weight) * static_cast<double>(value) * static_cast<double>(value);
}

}  // namespace shoal::kernels::rules
