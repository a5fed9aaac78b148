// SPDX-License-Identifier: Apache-2.0
// The products of this process that have an algorithm.
#pragma once

#include "kernels/cuda/product_library.hpp"

namespace shoal::kernels::cuda {

struct ChosenProduct {
  std::unique_ptr<LibraryProduct> product;
  Algorithm algorithm;
};

/// The product as the table below has it: all strides are given.
Product with_strides(Product product);

/// Null if nothing was chosen for this product, whose strides are given.
ChosenProduct* chosen_product(const Product& product);

/// Forgets all choices, for tests.
void forget_algorithms();

}  // namespace shoal::kernels::cuda
