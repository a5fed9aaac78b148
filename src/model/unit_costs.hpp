// SPDX-License-Identifier: Apache-2.0
// costs() of each model (rows of registry.cpp).
#pragma once

#include <cstddef>
#include <vector>

#include "shoal/base/bump_allocator.hpp"
#include "shoal/base/types.hpp"
#include "shoal/model/costs.hpp"

namespace shoal::model {

/// Bytes that Memory takes for a buffer of this many elements.
inline std::size_t buffer_bytes(std::size_t elements, std::size_t element_bytes) {
  return round_up(elements * element_bytes, BumpAllocator::cache_line);
}

namespace gpt {
std::vector<UnitCost> costs(const ModelOptions& options, DType dtype, const Capacity& capacity);
}
namespace mlp {
std::vector<UnitCost> costs(const ModelOptions& options, DType dtype, const Capacity& capacity);
}

}  // namespace shoal::model
