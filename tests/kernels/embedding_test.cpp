// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/embedding.hpp"

#include "kernel_test.hpp"

namespace shoal::kernels::test {
namespace of_embedding_test {

constexpr std::size_t B = 3, T = 5, vocabulary = 4;  // tokens occur several times, in one sample and in different ones

std::vector<std::int32_t> tokens() {
  std::vector<std::int32_t> ids(B * T);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * i % vocabulary);
  return ids;
}

template <typename Storage>
class Embedding : public testing::Test {};
TYPED_TEST_SUITE(Embedding, StorageTypes);

TYPED_TEST(Embedding, ForwardGathersAndAdds) {
  const auto ids = tokens();
  for (const std::size_t C : odd_sizes) {
    const auto wte = numbers<TypeParam>(vocabulary * C, 1);
    const auto wpe = numbers<TypeParam>(T * C, 2);
    std::vector<TypeParam> x(B * T * C), without(B * T * C);
    embedding_forward<TypeParam>({B, T, C}, ids.data(), {.token = wte.data(), .position = wpe.data()}, x.data());
    embedding_forward<TypeParam>({B, T, C}, ids.data(), {.token = wte.data(), .position = nullptr}, without.data());
    for (std::size_t row = 0; row < B * T; ++row) {
      for (std::size_t c = 0; c < C; ++c) {
        const float token = wte[static_cast<std::size_t>(ids[row]) * C + c];
        const float position = wpe[row % T * C + c];
        ASSERT_EQ(static_cast<float>(x[row * C + c]), static_cast<float>(TypeParam(token + position)));
        ASSERT_EQ(static_cast<float>(without[row * C + c]), token);
      }
    }
  }
}

// The same floats are added in the same order, so the bits are the same.
TYPED_TEST(Embedding, BackwardAddsInTheOrderOfTheTokens) {
  const auto ids = tokens();
  for (const std::size_t C : odd_sizes) {
    const auto dx = numbers<TypeParam>(B * T * C, 3);
    const auto before = numbers(vocabulary * C, 4);
    std::vector<float> dwte = before, dwpe(T * C, -7.0F), want = before, positions(T * C);
    embedding_backward<TypeParam>({B, T, C}, ids.data(), dx.data(), {.token = dwte.data(), .position = dwpe.data()});
    for (std::size_t row = 0; row < B * T; ++row) {
      for (std::size_t c = 0; c < C; ++c) {
        want[static_cast<std::size_t>(ids[row]) * C + c] += dx[row * C + c];
        positions[row % T * C + c] += dx[row * C + c];
      }
    }
    EXPECT_TRUE(same_bits(dwte, want));
    EXPECT_TRUE(same_bits(dwpe, positions));

    std::vector<float> alone = before;
    embedding_backward<TypeParam>({B, T, C}, ids.data(), dx.data(), {.token = alone.data(), .position = nullptr});
    EXPECT_TRUE(same_bits(alone, want));
  }
}

TYPED_TEST(Embedding, NothingDependsOnThreads) {
  const auto ids = tokens();
  const auto dx = numbers<TypeParam>(B * T * 1000, 5);
  expect_independent_of_threads<float>([&] {
    std::vector<float> dwte(vocabulary * 1000);
    embedding_backward<TypeParam>({B, T, 1000}, ids.data(), dx.data(), {.token = dwte.data(), .position = nullptr});
    return dwte;
  });
}

}  // namespace of_embedding_test
}  // namespace shoal::kernels::test
