// SPDX-License-Identifier: Apache-2.0
// Models that store parameters and activations in fp16 are close to fp32, and show overflow.
#include <gtest/gtest.h>

#include "harness.hpp"
#include "kernels_environment.hpp"

namespace shoal::model::test {
namespace of_fp16_test {

bool all_finite(const WholeUnits& access) {
  for (std::size_t u = 0; u < access.units().size(); ++u) {
    for (const float g : access.whole_gradient(u)) {
      if (!std::isfinite(g)) return false;
    }
  }
  return true;
}

TEST(Fp16, MemoryIsTakenAsPlannedAndSufficesForSmallerBatches) {
  for (const ModelOptions& options : all_models()) {
    Instance instance(options, {4, 7}, DType::f16);
    EXPECT_EQ(instance.memory->taken(), instance.counting.taken());
    for (std::size_t length = 1; length <= 7; ++length) {
      EXPECT_TRUE(std::isfinite(instance.forward_backward(RandomBatch(3, length, options.vocab_size).batch)));
    }
  }
}

/// fp16 has 11 bits of mantissa: each rounding has a root-mean-square error of 2^-12 / sqrt(3). A value is rounded about 12
/// times in each block and direction before it reaches a gradient. For 2 blocks in both directions 48 roundings add up to
/// sqrt(48) 2^-12 / sqrt(3) = 0.1 %. The sharp attention of these models enlarges some of them: ten times as much is
/// allowed. bf16 has 3 bits less, and so eight times the error; over all tensors and some batches at least half of that must
/// be found.
TEST(Fp16, AgreesWithFp32AndBetterThanBf16) {
  for (const ModelOptions& options : all_models()) {
    double of_fp16 = 0, of_bf16 = 0;
    for (const std::uint64_t seed : {7, 8, 9, 10}) {
      constexpr float scale = 256;  // keeps gradients above 2^-14, below which fp16 has fewer bits
      const RandomBatch data(4, 7, options.vocab_size, seed);
      for (const auto& [what, distance] : distances(options, DType::f16, data, scale)) {
        EXPECT_LT(distance, 0.01) << name_of(options.kind) << ", " << what;
        of_fp16 += distance;
      }
      for (const auto& [what, distance] : distances(options, DType::bf16, data, scale)) of_bf16 += distance;
    }
    EXPECT_LT(of_fp16, of_bf16 / 4) << name_of(options.kind);
  }
}

/// If the loss scale is too large, gradients overflow, and nothing else.
TEST(Fp16, OverflowGivesGradientsThatAreNotFinite) {
  for (const ModelOptions& options : all_models()) {
    Instance instance(options, {4, 7}, DType::f16);
    scramble(instance.access);
    const RandomBatch data(4, 7, options.vocab_size);
    const double loss = instance.forward_backward(data.batch, 1);
    EXPECT_TRUE(all_finite(instance.access));
    EXPECT_EQ(instance.forward_backward(data.batch, 0x1p20F), loss);
    EXPECT_FALSE(all_finite(instance.access)) << name_of(options.kind);
    EXPECT_EQ(instance.forward_backward(data.batch, 1), loss);
    EXPECT_TRUE(all_finite(instance.access));
  }
}

TEST(Fp16, OverflowInForwardGivesALossThatIsNotFinite) {
  Instance instance(tiny_gpt(), {2, 7}, DType::f16);
  instance.access.for_each([](const Parameter& p, Span<float> values, Span<const float>) {
    if (!p.is_vector()) std::fill(values.begin(), values.end(), 60000.0F);
  });
  instance.access.round_masters();
  EXPECT_FALSE(std::isfinite(instance.forward_backward(RandomBatch(2, 7, tiny_gpt().vocab_size).batch)));
}

}  // namespace of_fp16_test
}  // namespace shoal::model::test
