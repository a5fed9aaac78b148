// SPDX-License-Identifier: Apache-2.0
// Builds with assertions overwrite memory whose values are no longer valid, so that a result shows if they are used.
#pragma once

#include <bit>
#include <cstdint>

#include "shoal/base/types.hpp"
#include "shoal/kernels/bytes.hpp"

namespace shoal::zero {

/// Sets all bits, which makes every element a NaN in every dtype. The memory must consist of whole floats, as units and
/// their shards do: their lengths are multiples of model::tensor_alignment.
inline void fill_with_nan(Span<std::byte> memory) {
  constexpr auto nan = std::bit_cast<float>(~std::uint32_t{0});
  kernels::fill(memory.size() / sizeof(float), nan, reinterpret_cast<float*>(memory.data()));
}

}  // namespace shoal::zero
