// SPDX-License-Identifier: Apache-2.0
// Dropout with counter-based random numbers: the mask is a function of (seed, step, the sample's place in the global batch,
// unit, site, element), so it repeats itself when a layer is recomputed and on any number of ranks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shoal/base/philox.hpp"
#include "shoal/base/types.hpp"

namespace shoal::kernels {

/// One place in the model where elements are dropped, for the samples first_sample ... of a global batch.
/// Elements of one sample are numbered from 0; sample i of the micro-batch is first_sample + i in the global batch.
struct Dropout {
  float probability = 0.0F;  ///< 0: nothing is dropped, the rest is ignored
  std::uint64_t key = 0;     ///< from the run's seed
  std::uint32_t step = 0;
  std::uint32_t first_sample = 0;
  std::uint32_t site = 0;  ///< unit * 8 + place in the unit
  bool active() const { return probability > 0.0F; }
};

/// Whether element `element` of sample `sample` (its place in the global batch) is kept. Four neighbouring elements share
/// one Philox call: counter = {element / 4 (low 32 bits), step, sample, site + (element / 4 >> 32) * 2^20}, word element
/// % 4.
SHOAL_FUNCTION bool dropout_keep(const Dropout& d, std::uint32_t sample, std::uint64_t element) {
  const std::uint64_t group = element / 4;
  const Philox4 bits = philox(d.key, {static_cast<std::uint32_t>(group), d.step, sample,
                                      d.site + (static_cast<std::uint32_t>(group >> 32U) << 20U)});
  return uniform(bits[element % 4]) > d.probability;
}

/// y = residual + keep(x) / (1 - p): x, residual, y [samples, elements]. residual may be null (then y = keep(x) / (1 - p));
/// y may be x or residual.
template <typename T>
void dropout_add(const Dropout& dropout, std::size_t samples, std::size_t elements, const T* x, const T* residual, T* y);

/// dx = keep(dy) / (1 - p), the same mask. dx may be dy.
template <typename T>
void dropout_backward(const Dropout& dropout, std::size_t samples, std::size_t elements, const T* dy, T* dx);

}  // namespace shoal::kernels
