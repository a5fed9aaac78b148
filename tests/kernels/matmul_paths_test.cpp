// SPDX-License-Identifier: Apache-2.0
// How the tuned kernels cut a product, and what depends on the way in which they compute it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/cpu/floats.hpp"
#include "kernels/cpu/tiling.hpp"
#include "kernels/cpu/widened.hpp"
#include "kernels/matmul_case.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/trace.hpp"

namespace shoal::kernels {

template <typename T>
class MatmulPaths : public testing::Test {};
TYPED_TEST_SUITE(MatmulPaths, AllTypes);

// Matmul.OfManyTilesIsTheDefinition computes this product.
TYPED_TEST(MatmulPaths, LongSumsAreComputedInManyTiles) {
  constexpr DType type = dtype_of<typename TypeParam::Operand>, result = dtype_of<typename TypeParam::Result>;
  for (const Transpose b : transposes) {
    const ProductShape shape{600, 700, 20001, Transpose::no, b, type, result};
    if (is_widened(type) && !is_blocked(shape)) return;  // cut into panels, of 64 rows and columns for such a large k
    const Tiling tiling = tiling_of(shape, 1);
    ASSERT_EQ(is_blocked(shape), floats::available());  // others than AVX2's are left to the library
    ASSERT_GT(tiling.down(shape), 1U);
    if (!is_blocked(shape) && (type == DType::bf16 || b == Transpose::no)) {
      ASSERT_GT(tiling.across(shape), 1U);
    }
  }
}

// Matmul.OfManyBlocksIsTheDefinition computes this product.
TYPED_TEST(MatmulPaths, ALargeProductHasSeveralTiles) {
  const ProductShape large{1001,
                           1400,
                           2000,
                           Transpose::no,
                           Transpose::no,
                           dtype_of<typename TypeParam::Operand>,
                           dtype_of<typename TypeParam::Result>};
  ASSERT_GT(tiling_of(large, 1).down(large) * tiling_of(large, 1).across(large), 1U);
}

// Of blocked products: edges of a micro-kernel's tile, several KC, operands that are packed over the whole sum, for each KC,
// and read in place.
TYPED_TEST(MatmulPaths, AnElementDoesNotDependOnItsPosition) {
  using T = typename TypeParam::Operand;
  using R = typename TypeParam::Result;
  constexpr std::size_t m = 83, n = 150, row = 7, column = 41;
  for (const std::size_t k : {64, 131, 2050, 4300}) {
    for (const Transpose a : transposes) {
      for (const Transpose b : transposes) {
        const ProductShape shape{m, n, k, a, b, dtype_of<T>, dtype_of<R>};
        if (!is_blocked(shape)) continue;
        Case<T, R> whole(m, n, k, {a, b, false}, false, 0);
        whole.run();
        for (const std::size_t rows : {17, 18, 19, 20, 21, 22}) {
          const std::size_t columns = 3 * rows;
          Lines<R> part(rows * columns);
          MatmulInputs<T, R> in = whole.inputs();
          in.a.data += a == Transpose::yes ? row : row * in.a.stride;
          (a == Transpose::yes ? in.a.columns : in.a.rows) = rows;
          in.b.data += b == Transpose::yes ? column * in.b.stride : column;
          (b == Transpose::yes ? in.b.rows : in.b.columns) = columns;
          std::vector<std::byte> workspace(matmul_workspace_bytes<T, R>({.m = rows,
                                                                         .n = columns,
                                                                         .k = k,
                                                                         .transpose_a = a,
                                                                         .transpose_b = b,
                                                                         .a_stride = in.a.stride,
                                                                         .b_stride = in.b.stride}));
          matmul("test", in, Matrix<R>(part.data(), rows, columns), workspace);
          for (std::size_t i = 0; i < rows; ++i) {
            ASSERT_EQ(std::memcmp(&part[i * columns], &whole.c_data[(row + i) * n + column], columns * sizeof(R)), 0)
                << k << (a == Transpose::yes ? " A'" : "") << (b == Transpose::yes ? " B'" : "") << ", row " << i << " of "
                << rows;
          }
        }
      }
    }
  }
}

TEST(MatmulBf16, IsTheProductOfTheWidenedMatricesRoundedOnce) {
  if (!is_widened(DType::bf16)) GTEST_SKIP() << "this processor multiplies bf16; tried without, too";
  expect_product_of_widened_matrices<bf16>();
}

TEST(MatmulErrors, RefusesAWorkspaceTooSmall) {
  // The library copies a transposed A.
  Case<float, float> c(512, 512, 512, {.a = Transpose::yes}, false, 0);
  ASSERT_GT((matmul_workspace_bytes<float, float>({.m = 512, .n = 512, .k = 512, .transpose_a = Transpose::yes})), 0U);
  c.workspace.clear();
  EXPECT_THROW(c.run(), Error);
}

TEST(MatmulTrace, RecordsTheBytesOfTheProduct) {
  trace::start(trace::Level::kernels, 16);
  Case<float, float> c(8, 8, 8, {}, false, 0);
  c.run();
  const std::vector<trace::Event> events = trace::drain();
  trace::stop();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].bytes, 3 * 64 * sizeof(float));
}

TEST(Tiling, LetsCommunicationMoveAtLeastEvery20Milliseconds) {
  for (const DType type : {DType::f32, DType::bf16}) {
    const std::size_t limit = type == DType::f32 ? 4'000'000'000 : 8'000'000'000;  // 20 ms at 200 and 400 GFLOP/s
    for (const std::size_t m : {1, 256, 2048, 8192, 50304}) {
      for (const std::size_t n : {1, 384, 768, 3072, 50304}) {
        for (const std::size_t k : {1, 64, 768, 2048, 50304}) {
          for (const Transpose a : transposes) {
            for (const Transpose b : transposes) {
              const ProductShape shape{m, n, k, a, b, type, DType::f32};
              const Tiling tiling = tiling_of(shape, 1);
              EXPECT_LE(2 * tiling.rows * tiling.columns * k * tiling.per_launch(shape, 1), limit)
                  << m << " x " << n << " x " << k;
              EXPECT_GE(tiling.rows * tiling.down(shape), m);
              EXPECT_LT(tiling.rows * (tiling.down(shape) - 1), m);
              EXPECT_GE(tiling.columns * tiling.across(shape), n);
              EXPECT_LT(tiling.columns * (tiling.across(shape) - 1), n);
            }
          }
        }
      }
    }
  }
}

}  // namespace shoal::kernels
