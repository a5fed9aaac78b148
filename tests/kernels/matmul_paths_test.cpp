// SPDX-License-Identifier: Apache-2.0
// How the tuned kernels cut a product, and what depends on the way in which they compute it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/cpu/product/floats.hpp"
#include "kernels/cpu/product/tiling.hpp"
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
    const Multiplier by = multiplier_of(shape);
    if (by == Multiplier::widened) return;  // cut into panels, of 64 rows and columns for such a large k
    const Tiling tiling = tiling_of(shape, 1);
    ASSERT_EQ(is_blocked(by), floats::available());  // others than AVX2's are left to the library
    ASSERT_GT(tiling.down(shape), 1U);
    if (is_blocked(by) || type == DType::bf16 || b == Transpose::no) {
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
        const Multiplier by = multiplier_of(shape);
        if (!is_blocked(by)) continue;
        Case<T, R> whole(m, n, k, {a, b, false}, false, 0);
        whole.run();
        for (const std::size_t rows : {1, 5, 15, 17, 18, 19, 20, 21, 22}) {
          const std::size_t columns = 3 * rows;
          if (multiplier_of({rows, columns, k, a, b, dtype_of<T>, dtype_of<R>}) != by) continue;
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

// An element's chain continues over the parts into which blocked_floats.cpp cuts a sum: of one part, of several, and of
// parts for each of which both operands are packed.
TYPED_TEST(MatmulPaths, SumsByAvx2AreChainsOfMultiplyAdds) {
  if (!floats::available()) GTEST_SKIP() << "this processor has more than AVX2; tried without, too";
  for (const std::size_t k : {17, 512, 513, 1100, 4096, 4097, 4300}) {
    expect_chains_of_multiply_adds<typename TypeParam::Operand, typename TypeParam::Result>(19, 35, k);
  }
}

// The packed operands of a tile, also if it has few rows or columns and a long sum: a product of a few tokens.
TYPED_TEST(MatmulPaths, WorkspaceIsBoundedForAvx2) {
  if (!floats::available()) GTEST_SKIP() << "this processor has more than AVX2; tried without, too";
  for (const std::size_t few : {1, 16, 8192}) {
    for (const std::size_t k : {768, 4096, 16384}) {
      for (const MatmulShape& shape : {MatmulShape{.m = few, .n = 50304, .k = k}, {.m = 50304, .n = few, .k = k}}) {
        EXPECT_LE((matmul_workspace_bytes<typename TypeParam::Operand, typename TypeParam::Result>(shape)) /
                      static_cast<std::size_t>(threads()),
                  std::size_t{18} << 20U)
            << shape.m << " x " << shape.n << " x " << k;
      }
    }
  }
}

TEST(MatmulBf16, IsTheProductOfTheWidenedMatricesRoundedOnce) {
  if (abilities().bf16) GTEST_SKIP() << "this processor multiplies bf16; tried without, too";
  expect_product_of_widened_matrices<bf16>();
}

TEST(MatmulErrors, RefusesAWorkspaceTooSmall) {
  // A transposed A is copied or packed.
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

}  // namespace shoal::kernels
