// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/bytes.hpp"

#include "kernels/portable/launch.hpp"

namespace shoal::kernels {

using namespace portable;

void fill(std::size_t n, float value, float* x) {
  set_elements(
      "fill", n, x, SHOAL_LAMBDA(std::size_t) { return value; });
}

void copy_bytes(std::size_t bytes, const void* from, void* to) { portable::copy("copy", bytes, from, to); }

}  // namespace shoal::kernels
