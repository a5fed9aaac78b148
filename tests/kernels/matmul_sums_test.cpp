// SPDX-License-Identifier: Apache-2.0
// The order of the sums in portable products (kernels/portable/matmul.cpp), which is the same on every device.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "kernels/matmul_case.hpp"

namespace shoal::kernels {

template <typename T>
class MatmulSums : public testing::Test {};
TYPED_TEST_SUITE(MatmulSums, AllTypes);

// Tiles of several heights and widths, one and several parts of k.
TYPED_TEST(MatmulSums, AreChainsOfMultiplyAdds) {
  using R = typename TypeParam::Result;
  const std::array<std::array<std::size_t, 3>, 3> sizes = {{{13, 33, 5}, {70, 130, 300}, {250, 270, 129}}};
  for (const auto& [m, n, k] : sizes) {
    for (const Transpose a : transposes) {
      for (const Transpose b : transposes) {
        Case<typename TypeParam::Operand, R> c(m, n, k, {a, b, true}, true, 1);
        const Lines<R> before = c.c_data;
        c.run();
        for (std::size_t i = 0; i < m; ++i) {
          for (std::size_t j = 0; j < n; ++j) {
            float sum = 0.0F;
            for (std::size_t l = 0; l < k; ++l) {
              const float x = c.a_data[a == Transpose::yes ? l * c.a().stride + i : i * c.a().stride + l];
              const float y = c.b_data[b == Transpose::yes ? j * c.b().stride + l : l * c.b().stride + j];
              sum = std::fma(x, y, sum);
            }
            const std::size_t at = i * c.c().stride + j;
            const R expected(sum + static_cast<float>(c.bias[j]) + static_cast<float>(before[at]));
            ASSERT_EQ(std::memcmp(&c.c_data[at], &expected, sizeof expected), 0) << i << ", " << j;
          }
        }
      }
    }
  }
}

}  // namespace shoal::kernels
