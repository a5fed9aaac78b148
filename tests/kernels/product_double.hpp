// SPDX-License-Identifier: Apache-2.0
// Stands for cuBLASLt behind kernels/cuda/product_library.hpp: computes on the host, and notes what it was asked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/product_choice.hpp"
#include "kernels/cuda/product_library.hpp"

namespace shoal::kernels::test {

struct ProductDouble {
  std::string version = "double 1.0";
  std::uint64_t choice = 0;  ///< a number that its algorithms carry
  std::string no_algorithm;  ///< why there is none; empty: there is one
  std::string cannot_run;    ///< why no algorithm runs here; empty: all do
  std::vector<Product> chosen, checked;
  bool tf32 = false;  ///< as asked for the last product
  struct Run {
    std::string label;
    Product product;
    std::uint64_t choice;
    cuda::ProductOperands operands;
    const std::byte* workspace;
  };
  std::vector<Run> runs;
};
/// The only one. Assign {} and call cuda::forget_algorithms() before a test.
ProductDouble& product_double();

}  // namespace shoal::kernels::test
