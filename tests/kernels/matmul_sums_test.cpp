// SPDX-License-Identifier: Apache-2.0
// The order of the sums in portable products (kernels/portable/matmul.cpp), which is the same on every device.
#include <gtest/gtest.h>

#include <array>

#include "kernels/matmul_case.hpp"

namespace shoal::kernels {

template <typename T>
class MatmulSums : public testing::Test {};
TYPED_TEST_SUITE(MatmulSums, AllTypes);

// Tiles of several heights and widths, one and several parts of k.
TYPED_TEST(MatmulSums, AreChainsOfMultiplyAdds) {
  const std::array<std::array<std::size_t, 3>, 3> sizes = {{{13, 33, 5}, {70, 130, 300}, {250, 270, 129}}};
  for (const auto& [m, n, k] : sizes)
    expect_chains_of_multiply_adds<typename TypeParam::Operand, typename TypeParam::Result>(m, n, k);
}

}  // namespace shoal::kernels
