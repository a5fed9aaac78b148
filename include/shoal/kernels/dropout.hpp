// SPDX-License-Identifier: Apache-2.0
// Dropout with counter-based random numbers. The mask is a function of seed, step, the sample's index in the global batch,
// unit, site and element, so it is the same when a layer is recomputed and on any number of ranks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shoal/base/philox.hpp"
#include "shoal/base/types.hpp"

namespace shoal::kernels {

/// Dropout at one site of the model in one micro-batch. Sample i of the micro-batch is sample first_sample + i of the global
/// batch. The elements of a sample are numbered from 0.
struct Dropout {
  float probability = 0.0F;  ///< 0: nothing is dropped, and the other members are not used
  std::uint64_t key = 0;     ///< derived from the run's seed
  std::uint32_t step = 0;
  std::uint32_t first_sample = 0;
  std::uint32_t site = 0;  ///< 8 * unit + index of the site in the unit
  SHOAL_FUNCTION bool active() const { return probability > 0.0F; }
};

/// Returns the random numbers of the elements 4 group .. 4 group + 3 of a sample.
SHOAL_FUNCTION Philox4 dropout_bits(const Dropout& d, std::uint32_t sample, std::uint64_t group) {
  return philox(d.key, {static_cast<std::uint32_t>(group), d.step, sample,
                        d.site + (static_cast<std::uint32_t>(group >> 32U) << 20U)});
}

/// Returns true if this element is kept. `sample` is the index in the global batch.
/// Four neighbouring elements use the four words of one Philox call, whose counter is {element / 4 (low 32 bits), step,
/// sample, site + (element / 4 >> 32) * 2^20}: element % 4 selects the word.
SHOAL_FUNCTION bool dropout_keep(const Dropout& d, std::uint32_t sample, std::uint64_t element) {
  return uniform(dropout_bits(d, sample, element / 4)[element % 4]) > d.probability;
}

/// y = residual + keep(x) / (1 - p), where x, residual and y are [samples, elements]. y may be x or residual. Without the
/// first term if residual is null.
template <typename T>
void dropout_add(const Dropout& dropout, std::size_t samples, std::size_t elements, const T* x, const T* residual, T* y);

/// dx = keep(dy) / (1 - p) with the same mask. dx may be dy.
template <typename T>
void dropout_backward(const Dropout& dropout, std::size_t samples, std::size_t elements, const T* dy, T* dx);

}  // namespace shoal::kernels
