// SPDX-License-Identifier: Apache-2.0
// The public functions, by whichever kernels the program is linked with.
#include "shoal/kernels/attention.hpp"

#include <utility>

#include "kernels/attention_properties.hpp"
#include "shoal/device/kind.hpp"

namespace shoal::kernels {

/// The blocks of ours have at most 32 rows, those of cuDNN 128.
template <typename T>
std::vector<Implementation<T>> implementations() {
  const std::size_t nan = device::kind() == device::DeviceKind::cuda ? 140 : 44;
  return {{"this program's kernels", attention_forward<T>, attention_backward<T>, nan, 31}};
}

// Compares backward with forward alone: a directional derivative of sum(dout * out), by central differences. With h = 2^-6
// their error is about h^2 of the value, and that of rounding 2^-24 * |loss| / h.
TEST(AttentionDerivative, IsWhatFiniteDifferencesSay) {
  for (const Dropout& dropout : {no_dropout, some_dropout}) {
    const AttentionShape shape{2, 33, 48, 3};
    Case<float> c(shape, dropout, 1.0F);
    c.run(implementations<float>().front());
    const std::vector<float> direction = reference::numbers<float>(c.qkv.size(), 5), qkv = c.qkv, gradient = c.dqkv;
    const auto loss = [&](float h) {
      for (std::size_t i = 0; i < qkv.size(); ++i) c.qkv[i] = qkv[i] + h * direction[i];
      attention_forward<float>(shape, c.qkv.data(), c.outputs(), dropout, c.workspace);
      double sum = 0.0;
      for (std::size_t i = 0; i < c.out.size(); ++i) sum += static_cast<double>(c.out[i]) * static_cast<double>(c.dout[i]);
      return sum;
    };
    double along = 0.0;
    for (std::size_t i = 0; i < qkv.size(); ++i)
      along += static_cast<double>(gradient[i]) * static_cast<double>(direction[i]);
    const float h = 0x1p-6F;
    EXPECT_NEAR((loss(h) - loss(-h)) / (2.0 * static_cast<double>(h)), along, 2e-3 * std::max(1.0, std::abs(along)));
  }
}

// With 200 positions, the largest score is not always among the first ones, and sums are rescaled.
TYPED_TEST(Attention, DecodingIsTheLastRow) {
  for (const auto& [T, HS] :
       {std::pair<std::size_t, std::size_t>{37, 7}, {37, 16}, {37, 64}, {37, 300}, {200, 7}, {200, 16}}) {
    const AttentionShape shape{1, T, 8 * HS, 8};
    Case<TypeParam> c(shape, no_dropout);
    const std::size_t last = shape.T - 1, stride = 3 * shape.C;
    std::vector<TypeParam> out(shape.C);
    attention_decode<TypeParam>(
        8, HS, c.qkv.data() + last * stride,
        {.keys = c.qkv.data() + shape.C, .values = c.qkv.data() + 2 * shape.C, .stride = stride, .length = shape.T},
        out.data());
    const std::vector<double> all = c.expected().out;
    const std::vector<double> expected(all.end() - static_cast<std::ptrdiff_t>(shape.C), all.end());
    EXPECT_LE(distance(out, expected), one_of<TypeParam>(1e-5, 0.005, 5e-4)) << HS;
  }
}

}  // namespace shoal::kernels
