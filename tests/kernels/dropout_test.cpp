// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/dropout.hpp"

#include <limits>

#include "kernel_test.hpp"

namespace shoal::kernels::test {
namespace of_dropout_test {

Dropout dropout(float probability) { return {probability, 0x123456789abcdef0U, 17, 3, 5 * 8 + 2}; }

template <typename T>
class DropoutOf : public testing::Test {};
TYPED_TEST_SUITE(DropoutOf, StorageTypes);

TYPED_TEST(DropoutOf, AddIsTheDefinition) {
  const Dropout d = dropout(0.3F);
  const std::size_t samples = 3;
  for (const std::size_t elements : {std::size_t{1}, std::size_t{15}, std::size_t{63}, std::size_t{64}, std::size_t{65},
                                     std::size_t{1000}, std::size_t{16385}}) {
    const auto x = numbers<TypeParam>(samples * elements, 1);
    const auto residual = numbers<TypeParam>(samples * elements, 2);
    std::vector<TypeParam> sum(x.size()), alone(x.size()), dx(x.size());
    dropout_add(d, samples, elements, x.data(), residual.data(), sum.data());
    dropout_add<TypeParam>(d, samples, elements, x.data(), nullptr, alone.data());
    dropout_backward(d, samples, elements, x.data(), dx.data());
    const float kept = 1.0F / (1.0F - d.probability);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const bool keep = dropout_keep(d, d.first_sample + static_cast<std::uint32_t>(i / elements), i % elements);
      const float want = keep ? static_cast<float>(x[i]) * kept : 0.0F;
      ASSERT_EQ(static_cast<float>(sum[i]), static_cast<float>(TypeParam(static_cast<float>(residual[i]) + want)));
      ASSERT_EQ(static_cast<float>(alone[i]), static_cast<float>(TypeParam(want)));
      ASSERT_EQ(static_cast<float>(dx[i]), static_cast<float>(TypeParam(want)));
    }
  }
}

TYPED_TEST(DropoutOf, MayWriteOverItsOperands) {
  const Dropout d = dropout(0.5F);
  const auto x = numbers<TypeParam>(200, 3);
  const auto residual = numbers<TypeParam>(200, 4);
  std::vector<TypeParam> apart(200), over_x = x, over_residual = residual;
  dropout_add(d, 2, 100, x.data(), residual.data(), apart.data());
  dropout_add(d, 2, 100, over_x.data(), residual.data(), over_x.data());
  dropout_add(d, 2, 100, x.data(), over_residual.data(), over_residual.data());
  EXPECT_TRUE(same_bits(over_x, apart));
  EXPECT_TRUE(same_bits(over_residual, apart));
}

TYPED_TEST(DropoutOf, WithoutProbabilityNothingIsDropped) {
  const auto x = numbers<TypeParam>(100, 5);
  std::vector<TypeParam> y(100);
  dropout_add<TypeParam>(dropout(0.0F), 2, 50, x.data(), nullptr, y.data());
  EXPECT_TRUE(same_bits(x, y));
}

TYPED_TEST(DropoutOf, NothingDependsOnThreads) {
  const auto x = numbers<TypeParam>(3 * 20000, 6);
  expect_independent_of_threads<TypeParam>([&] {
    std::vector<TypeParam> y(x.size());
    dropout_add<TypeParam>(dropout(0.2F), 3, 20000, x.data(), nullptr, y.data());
    return y;
  });
}

// A micro-batch that begins at another sample gets the masks of its own samples.
TEST(Dropout, MasksBelongToSamplesOfTheGlobalBatch) {
  const std::size_t elements = 100;
  const std::vector<float> ones(4 * elements, 1.0F);
  std::vector<float> together(4 * elements), apart(4 * elements);
  Dropout d = dropout(0.5F);
  dropout_add<float>(d, 4, elements, ones.data(), nullptr, together.data());
  dropout_add<float>(d, 1, elements, ones.data(), nullptr, apart.data());
  ++d.first_sample;
  dropout_add<float>(d, 3, elements, ones.data(), nullptr, apart.data() + elements);
  EXPECT_TRUE(same_bits(together, apart));
}

// A fraction p is dropped, within four standard deviations. Other steps, sites, samples and seeds drop other elements.
TEST(Dropout, DropsItsShare) {
  const std::size_t n = 1U << 18U;
  const std::vector<float> ones(n, 1.0F);
  const auto mask = [&](const Dropout& d) {
    std::vector<float> y(n);
    dropout_add<float>(d, 1, n, ones.data(), nullptr, y.data());
    return y;
  };
  const Dropout base = dropout(0.1F);
  const auto first = mask(base);
  const double sigma = std::sqrt(0.1 * 0.9 * static_cast<double>(n));
  EXPECT_NEAR(static_cast<double>(std::count(first.begin(), first.end(), 0.0F)), 0.1 * static_cast<double>(n), 4 * sigma);
  const auto both_drop = [&](const Dropout& other) {
    const auto second = mask(other);
    std::size_t both = 0;
    for (std::size_t i = 0; i < n; ++i) both += first[i] == 0.0F && second[i] == 0.0F ? 1U : 0U;
    return static_cast<double>(both);
  };
  Dropout step = base, site = base, sample = base, seed = base;
  ++step.step;
  ++site.site;
  ++sample.first_sample;
  ++seed.key;
  for (const Dropout& other : {step, site, sample, seed}) {
    EXPECT_NEAR(both_drop(other), 0.01 * static_cast<double>(n), 4 * std::sqrt(0.01 * static_cast<double>(n)));
  }
}

}  // namespace of_dropout_test
}  // namespace shoal::kernels::test
