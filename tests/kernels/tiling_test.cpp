// SPDX-License-Identifier: Apache-2.0
// Which kernel computes a product, and how the product is cut, on processors of every kind, whichever this one is.
#include "kernels/cpu/product/tiling.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace shoal::kernels {
namespace of_tiling_test {

constexpr std::array types = {DType::f32, DType::bf16, DType::f16};
constexpr std::array transposes = {Transpose::no, Transpose::yes};

struct Processor {
  const char* name;
  Abilities can;
  std::array<Multiplier, types.size()> of_blocks;  ///< of each type: what computes a product of 64 x 64 x 64
};
using enum Multiplier;
constexpr std::array<Processor, 5> processors = {{
    {"AVX2", {.floats = true, .pairs = false, .tiles = false, .bf16 = false}, {floats, floats, floats}},
    {"AVX-512", {.floats = false, .pairs = false, .tiles = false, .bf16 = false}, {library, widened, widened}},
    {"AVX512_BF16", {.floats = false, .pairs = true, .tiles = false, .bf16 = true}, {library, pairs, widened}},
    {"AMX", {.floats = false, .pairs = false, .tiles = true, .bf16 = true}, {tiles, tiles, widened}},
    {"AMX, but not in the build",
     {.floats = false, .pairs = false, .tiles = false, .bf16 = true},
     {library, library, widened}},
}};

/// Calls check(processor, shape) for products of all sizes and types.
template <class Check>
void for_all_products(const Check& check) {
  for (const Processor& processor : processors) {
    for (const DType type : types) {
      for (const std::size_t m : {1, 15, 256, 2048, 8192, 50304}) {
        for (const std::size_t n : {1, 16, 384, 768, 3072, 50304}) {
          for (const std::size_t k : {1, 17, 64, 768, 4096, 4097, 9500, 50304}) {
            for (const Transpose a : transposes) {
              for (const Transpose b : transposes) {
                SCOPED_TRACE(testing::Message()
                             << processor.name << ", type " << static_cast<int>(type) << ", " << m << " x " << n << " x "
                             << k << (a == Transpose::yes ? " A'" : "") << (b == Transpose::yes ? " B'" : ""));
                check(processor, ProductShape{m, n, k, a, b, type, DType::f32});
              }
            }
          }
        }
      }
    }
  }
}

TEST(Multiplier, IsThatOfTheProcessor) {
  for (const Processor& processor : processors) {
    for (std::size_t t = 0; t < types.size(); ++t) {
      const ProductShape shape{64, 64, 64, Transpose::no, Transpose::no, types[t], DType::f32};
      EXPECT_EQ(multiplier_of(shape, processor.can), processor.of_blocks[t]) << processor.name << ", type " << t;
    }
  }
}

TEST(Multiplier, TakesOperandsOfTheType) {
  for_all_products([](const Processor& processor, const ProductShape& shape) {
    EXPECT_TRUE(takes(multiplier_of(shape, processor.can), shape.type));
  });
  for (const Multiplier m : {library, pairs, tiles}) EXPECT_FALSE(takes(m, DType::f16));
}

TEST(Tiling, CoversTheProduct) {
  for_all_products([](const Processor& processor, const ProductShape& shape) {
    if (multiplier_of(shape, processor.can) == widened) return;
    for (const std::size_t threads : {1, 2, 8}) {
      const Tiling tiling = tiling_of(shape, threads, processor.can);
      EXPECT_GE(tiling.rows * tiling.down(shape), shape.m);
      EXPECT_LT(tiling.rows * (tiling.down(shape) - 1), shape.m);
      EXPECT_GE(tiling.columns * tiling.across(shape), shape.n);
      EXPECT_LT(tiling.columns * (tiling.across(shape) - 1), shape.n);
    }
  });
}

// Messages move between launches. A launch has tiles for all threads.
TEST(Tiling, LaunchesTakeAtMost20MillisecondsOnAllThreads) {
  for_all_products([](const Processor& processor, const ProductShape& shape) {
    if (multiplier_of(shape, processor.can) == widened) return;
    const std::size_t rate = processor.can.floats ? 100 : shape.type == DType::f32 ? 200 : 400;  // GFLOP/s of one core
    for (const std::size_t threads : {1, 2, 8}) {
      const Tiling tiling = tiling_of(shape, threads, processor.can);
      const std::size_t tiles = tiling.down(shape) * tiling.across(shape), launched = tiling.per_launch(shape, threads);
      EXPECT_GE(launched, std::min(tiles, threads));
      EXPECT_LE(2 * tiling.rows * tiling.columns * shape.k * parts(launched, threads), rate * 20'000'000);
    }
  });
}

}  // namespace of_tiling_test
}  // namespace shoal::kernels
