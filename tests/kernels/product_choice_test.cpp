// SPDX-License-Identifier: Apache-2.0
// How the program for GPUs chooses algorithms of matrix products, hands them to other ranks, and runs them. A double stands
// for cuBLASLt, so what is tested here is all but kernels/cuda/product_cublaslt.cpp.
#include <gmock/gmock.h>

#include <cstdint>

#include "kernels/matmul_case.hpp"
#include "kernels/product_double.hpp"
#include "shoal/base/error.hpp"

namespace shoal::kernels {

namespace {

using test::product_double;
using testing::HasSubstr;

template <typename Act>
std::string error_of(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class ProductChoice : public testing::Test {
  void SetUp() override {
    product_double() = {};
    cuda::forget_algorithms();
    cases_choose = false;
  }
};

std::vector<Product> some_products() {
  return {product<bf16, bf16>({.m = 8, .n = 16, .k = 24, .bias = true, .added = true}),
          product<bf16, float>({.m = 24, .n = 16, .k = 8, .transpose_a = Transpose::yes}),
          product<float, float>({.m = 8, .n = 24, .k = 16, .transpose_b = Transpose::yes}, false)};
}

TEST_F(ProductChoice, OfRank0IsUsedByOthers) {
  product_double().choice = 7;
  const std::vector<std::byte> bytes = choose_algorithms(some_products());
  EXPECT_EQ(product_double().chosen.size(), 3);
  product_double() = {};
  product_double().choice = 8;  // what this rank would choose
  use_algorithms(some_products(), bytes);
  EXPECT_EQ(product_double().checked.size(), 3);
  EXPECT_TRUE(product_double().chosen.empty());
  choose_missing_algorithms(some_products());
  EXPECT_TRUE(product_double().chosen.empty()) << "all products have an algorithm";

  Case<bf16, bf16> c(8, 16, 24, {.accumulate = true}, true, 0);
  c.check();
  ASSERT_EQ(product_double().runs.size(), 1);
  EXPECT_EQ(product_double().runs[0].choice, 7);
  EXPECT_EQ(product_double().runs[0].label, "test");
}

TEST_F(ProductChoice, StridesThatAreNotGivenAreThoseWithoutGaps) {
  for (const Transpose a : transposes) {
    for (const Transpose b : transposes) {
      const MatmulShape shape{.m = 8, .n = 16, .k = 24, .transpose_a = a, .transpose_b = b};
      choose_missing_algorithms({product<float, float>(shape)});
      Case<float, float>(8, 16, 24, {a, b}, false, 0).check();
      const MatmulShape& full = product_double().chosen.back().shape;
      EXPECT_EQ(full.a_stride, a == Transpose::yes ? 8 : 24);
      EXPECT_EQ(full.b_stride, b == Transpose::yes ? 24 : 16);
      EXPECT_EQ(full.c_stride, 16);
    }
  }
}

TEST_F(ProductChoice, AProductThatIsNotListedIsAnErrorWithItsShape) {
  choose_missing_algorithms(some_products());
  Case<bf16, bf16> c(8, 16, 24, {.accumulate = true}, true, 0);
  c.check();
  EXPECT_EQ(error_of([] { Case<bf16, bf16>(9, 16, 24, {.accumulate = true}, true, 0).run(); }),
            "test: no algorithm was chosen for [9, 24] x [24, 16] + bias + matrix, bf16: the list of the model's products "
            "(products.hpp) lacks it");
  EXPECT_THAT(error_of([] { Case<bf16, bf16>(8, 16, 24, {}, true, 0).run(); }),
              HasSubstr("[8, 24] x [24, 16] + bias, bf16:"));
  EXPECT_THAT(error_of([] { Case<f16, f16>(8, 16, 24, {.accumulate = true}, true, 0).run(); }), HasSubstr(", fp16:"));
  EXPECT_THAT(error_of([] { Case<bf16, float>(24, 16, 8, {}, false, 0).run(); }),
              HasSubstr("[24, 8] x [8, 16], bf16 to fp32:"));
  EXPECT_THAT(error_of([] { Case<bf16, bf16>(8, 16, 24, {.accumulate = true}, true, 8).run(); }),
              HasSubstr("[8, 24] of stride 32 x [24, 16] of stride 24 + bias + matrix, result of stride 24, bf16:"));
  EXPECT_THAT(error_of([] { Case<float, float>(8, 24, 16, {.b = Transpose::yes}, false, 0).run(); }),
              HasSubstr("[8, 16] x [24, 16]', fp32:"))
      << "listed for other addresses only";
}

/// An algorithm for addresses of 16 bytes must not be given others.
TEST_F(ProductChoice, KnowsTheAlignmentOfAllAddresses) {
  const MatmulShape shape{.m = 4, .n = 8, .k = 8, .bias = true, .added = true};
  choose_missing_algorithms({product<float, float>(shape)});
  const std::size_t padding = 4;
  std::vector<float> a(32 + padding), b(64 + padding), bias(8 + padding), added(32 + padding), c(32 + padding);
  std::vector<std::byte> workspace(matmul_workspace_bytes<float, float>(shape));
  const auto run = [&](std::array<std::size_t, 5> at) {
    return error_of([&] {
      matmul<float, float>("test",
                           {.a = {a.data() + at[0], 4, 8},
                            .b = {b.data() + at[1], 8, 8},
                            .bias = bias.data() + at[2],
                            .added = added.data() + at[3]},
                           {c.data() + at[4], 4, 8}, workspace);
    });
  };
  EXPECT_EQ(run({0, 0, 0, 0, 0}), "no error");
  EXPECT_EQ(run({4, 4, 4, 4, 4}), "no error");
  for (std::size_t operand = 0; operand < 5; ++operand) {
    std::array<std::size_t, 5> at{};
    at[operand] = 2;
    EXPECT_THAT(run(at), HasSubstr("addresses not multiples of 16")) << operand;
  }
}

TEST_F(ProductChoice, OfAnotherVersionOrListIsRefused) {
  const std::vector<std::byte> bytes = choose_algorithms(some_products());
  product_double().version = "double 1.1";
  EXPECT_EQ(error_of([&] { use_algorithms(some_products(), bytes); }),
            "matrix products: double 1.0 has chosen the algorithms on rank 0, and this rank has double 1.1: all ranks need "
            "the same version, so that they compute the same bits");
  product_double().version = "double 1.0";
  EXPECT_THAT(error_of([&] { use_algorithms({some_products()[0]}, bytes); }), HasSubstr("for 1 product:"));
}

TEST_F(ProductChoice, WhatThisGpuCannotIsOneLine) {
  const std::vector<std::byte> bytes = choose_algorithms(some_products());
  product_double().cannot_run = "too new";
  EXPECT_EQ(error_of([&] { use_algorithms(some_products(), bytes); }),
            "matrix products: rank 0's algorithm for [8, 24] x [24, 16] + bias + matrix, bf16 does not run on the double: "
            "too new; all ranks need GPUs that run the same algorithms");
  product_double().no_algorithm = "none here";
  EXPECT_EQ(error_of([] { choose_algorithms(some_products()); }),
            "matrix products: double 1.0 has no algorithm for [8, 24] x [24, 16] + bias + matrix, bf16 on the double: none "
            "here");
}

TEST_F(ProductChoice, RunsOnAnAlignedWorkspaceOfThePlannedSize) {
  const MatmulShape shape{.m = 4, .n = 8, .k = 8};
  choose_missing_algorithms({product<float, float>(shape)});
  Case<float, float> c(4, 8, 8, {}, false, 0);
  EXPECT_EQ(workspace_bytes(some_products()), c.workspace.size());
  c.check();
  const test::ProductDouble::Run run = product_double().runs.back();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(run.workspace) % cuda::workspace_alignment, 0);
  EXPECT_GE(run.workspace, c.workspace.data());
  EXPECT_LE(run.workspace + cuda::workspace_bytes, c.workspace.data() + c.workspace.size());
  c.workspace.resize(cuda::workspace_bytes - 1);
  EXPECT_THROW(c.run(), Error);
}

/// The library takes a bias of the result's type alone: others are added behind the product.
TEST_F(ProductChoice, BiasesOfAnotherTypeAreAddedToo) {
  choose_missing_algorithms({product<bf16, float>({.m = 5, .n = 7, .k = 9, .bias = true}),
                             product<f16, f16>({.m = 5, .n = 7, .k = 9, .bias = true})});
  Case<bf16, float>(5, 7, 9, {}, true, 0).check();
  EXPECT_EQ(product_double().runs.back().operands.bias, nullptr);
  Case<f16, f16>(5, 7, 9, {}, true, 0).check();
  EXPECT_NE(product_double().runs.back().operands.bias, nullptr);
}

TEST_F(ProductChoice, Tf32IsAskedForWhereItIsSet) {
  ASSERT_TRUE(product_features().tf32);
  const std::vector<std::byte> bytes = choose_algorithms(some_products());
  EXPECT_FALSE(product_double().tf32);
  set_tf32(true);
  choose_algorithms(some_products());
  EXPECT_TRUE(product_double().tf32);
  product_double().tf32 = false;
  use_algorithms(some_products(), bytes);
  EXPECT_TRUE(product_double().tf32);
  set_tf32(false);
}

/// A residual is added by the product itself, from another matrix than the result.
TEST_F(ProductChoice, AnotherMatrixIsAddedByTheProduct) {
  choose_missing_algorithms({product<bf16, bf16>({.m = 5, .n = 8, .k = 9, .added = true})});
  Case<bf16, bf16> c(5, 8, 9, {.accumulate = true}, false, 0);
  const Lines<bf16> residual = c.c_data;
  c.run_with(residual.data());
  EXPECT_EQ(product_double().runs.back().operands.added, residual.data());
  EXPECT_EQ(product_double().runs.back().operands.c, c.c_data.data());
}

}  // namespace

}  // namespace shoal::kernels
