// SPDX-License-Identifier: Apache-2.0
// The backends of the tuned kernels, all that this process can use: by vectors, and by AMX's tiles.
#include "kernels/attention_properties.hpp"
#include "kernels/cpu/attention/attention.hpp"
#include "kernels/cpu/attention/attention_amx.hpp"

namespace shoal::kernels {

namespace {

using attention::Backend;

template <typename T, Backend backend>
void forward_by(const AttentionShape& shape, const T* qkv, const AttentionOutputs<T>& out, const Dropout& dropout,
                Span<std::byte> workspace) {
  attention::forward_by<T>(backend, shape, qkv, out, dropout, workspace);
}
template <typename T, Backend backend>
void backward_by(const AttentionShape& shape, const AttentionBackwardInputs<T>& in, T* dqkv, const Dropout& dropout,
                 Span<std::byte> workspace) {
  attention::backward_by<T>(backend, shape, in, dqkv, dropout, workspace);
}
/// Blocks have 6 rows, so rows from 18 on may be NaN if row 20 is.
template <typename T>
Implementation<T> vectors() {
  return {"by vectors", forward_by<T, Backend::vectors>, backward_by<T, Backend::vectors>, 20, 11};
}
/// Blocks have 32 rows.
template <typename T>
Implementation<T> tiles() {
  return {"by tiles", forward_by<T, Backend::tiles>, backward_by<T, Backend::tiles>, 44, 31};
}
}  // namespace

template <typename T>
std::vector<Implementation<T>> implementations() {
  if (attention::backend<T>() == Backend::tiles) return {vectors<T>(), tiles<T>()};
  return {vectors<T>()};
}

TYPED_TEST(Attention, UsesThisProcessesBackend) {
  Case<TypeParam> c({1, 70, 64, 1}, no_dropout), d(c);
  c.run(attention::backend<TypeParam>() == Backend::tiles ? tiles<TypeParam>() : vectors<TypeParam>());
  attention_forward<TypeParam>(d.shape, d.qkv.data(), d.outputs(), d.dropout, d.workspace);
  attention_backward<TypeParam>(d.shape, d.backward_inputs(), d.dqkv.data(), d.dropout, d.workspace);
  EXPECT_TRUE(same_results(c, d));
}

#if defined(SHOAL_AMX)
class AttentionByTiles : public testing::Test {
  void SetUp() override {
    if (attention::backend<bf16>() != Backend::tiles) GTEST_SKIP() << "this process has no tile registers";
  }
};

// The library's products configure the same registers for themselves.
TEST_F(AttentionByTiles, AndMatrixProductsDoNotDisturbEachOther) {
  const AttentionShape shape{1, 100, 96, 1};
  const auto product = [&] {
    const std::vector<bf16> a = reference::numbers<bf16>(70 * 50, 3), b = reference::numbers<bf16>(50 * 60, 4);
    std::vector<float> c(70 * 60);
    std::vector<std::byte> workspace(matmul_workspace_bytes<bf16, float>({.m = 70, .n = 60, .k = 50}));
    matmul<bf16, float>("product", {.a = {a.data(), 70, 50}, .b = {b.data(), 50, 60}}, {c.data(), 70, 60}, workspace);
    return c;
  };
  const std::vector<float> alone = product();
  Case<bf16> before(shape, no_dropout), after(shape, no_dropout);
  before.run(tiles<bf16>());
  EXPECT_EQ(product(), alone);
  EXPECT_TRUE(same_results(before, after.run(tiles<bf16>())));
}

// A relative error of at most 3e-6, and 2^-126 for all smaller results.
TEST_F(AttentionByTiles, ExponentialsAreFarBetterThanRounding) {
  const auto power = [](float x) { return attention::tiled::quick_exp2(simd::broadcast(x))[0]; };
  double largest = 0.0;
  for (int i = 0; i <= 126 * 4096; ++i) {
    const float x = -static_cast<float>(i) / 4096.0F;
    const double expected = std::exp2(static_cast<double>(x));
    largest = std::max(largest, std::abs(static_cast<double>(power(x)) - expected) / expected);
  }
  EXPECT_LE(largest, 3e-6);
  EXPECT_EQ(power(0.0F), 1.0F);
  EXPECT_EQ(power(-1000.0F), 0x1p-126F);
  EXPECT_EQ(power(-INFINITY), 0x1p-126F);
  EXPECT_TRUE(std::isnan(power(std::numeric_limits<float>::quiet_NaN())));
}
#endif

}  // namespace shoal::kernels
