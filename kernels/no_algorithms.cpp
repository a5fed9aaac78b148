// SPDX-License-Identifier: Apache-2.0
// Processors: a product's algorithm follows from its shape and the processor alone.
#include "shoal/kernels/products.hpp"

namespace shoal::kernels {

std::vector<std::byte> choose_algorithms(const std::vector<Product>& /*products*/) { return {}; }
void use_algorithms(const std::vector<Product>& /*products*/, Span<const std::byte> /*chosen*/) {}
void choose_missing_algorithms(const std::vector<Product>& /*products*/) {}

}  // namespace shoal::kernels
