// SPDX-License-Identifier: Apache-2.0
// Processors: a product's algorithm follows from its shape and the processor alone.
#include "shoal/base/error.hpp"
#include "shoal/kernels/products.hpp"

namespace shoal::kernels {

ProductFeatures product_features() { return {}; }
void set_tf32(bool on) { require(!on, "matrix products: processors have no TF32"); }

std::vector<std::byte> choose_algorithms(const std::vector<Product>& /*products*/) { return {}; }
void use_algorithms(const std::vector<Product>& /*products*/, Span<const std::byte> /*chosen*/) {}
void choose_missing_algorithms(const std::vector<Product>& /*products*/) {}

}  // namespace shoal::kernels
