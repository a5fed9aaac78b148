// SPDX-License-Identifier: Apache-2.0
// The sum in one pass has the bits of its additions made one after another.
#include "shoal/kernels/tree_sum.hpp"

#include <limits>

#include "kernel_test.hpp"
#include "shoal/base/error.hpp"
#include "shoal/kernels/storage.hpp"

namespace shoal::kernels::test {
namespace of_tree_sum_test {

template <typename T>
using Arrays = std::vector<std::vector<T>>;

/// Numbers of many sizes, so that another order or a rounding that is left out gives other bits.
template <typename T>
Arrays<T> terms_of(std::size_t count, std::size_t n) {
  Arrays<T> terms;
  for (std::size_t t = 0; t < count; ++t) {
    terms.push_back(numbers<T>(n, 100 + t));
    for (std::size_t i = t % 3; i < n; i += 3) terms[t][i] = T(static_cast<float>(terms[t][i]) * 512.0F);
  }
  return terms;
}

/// count - 1 additions: of neighbours, then of their sums.
template <typename T>
std::vector<T> added(Arrays<T> terms) {
  for (std::size_t distance = 1; distance < terms.size(); distance *= 2) {
    for (std::size_t t = 0; t + distance < terms.size(); t += 2 * distance) {
      add(dtype_of<T>, terms[t].size(), terms[t + distance].data(), terms[t].data());
    }
  }
  return terms.front();
}

template <typename T>
TreeTerms places_of(const Arrays<T>& terms) {
  TreeTerms places;
  for (const std::vector<T>& term : terms) places.at[places.count++] = term.data();
  return places;
}

template <typename T>
std::vector<T> summed(const Arrays<T>& terms) {
  std::vector<T> sum(terms.front().size(), T(-7.0F));
  tree_sum(dtype_of<T>, sum.size(), places_of(terms), sum.data());
  return sum;
}

template <typename T>
class TreeSum : public testing::Test {};
TYPED_TEST_SUITE(TreeSum, StorageTypes);

TYPED_TEST(TreeSum, HasTheBitsOfItsAdditions) {
  for (std::size_t count = 1; count <= TreeTerms::most; ++count) {
    for (const std::size_t n : odd_sizes) {
      const auto terms = terms_of<TypeParam>(count, n);
      EXPECT_TRUE(same_bits(summed(terms), added(terms))) << count << " terms of " << n;
    }
  }
}

TYPED_TEST(TreeSum, MayOverwriteAnyTerm) {
  constexpr std::size_t n = 1003;
  for (const std::size_t count : {2U, 5U, 16U}) {
    for (std::size_t place = 0; place < count; ++place) {
      auto terms = terms_of<TypeParam>(count, n);
      const auto want = added(terms);
      tree_sum(dtype_of<TypeParam>, n, places_of(terms), terms[place].data());
      EXPECT_TRUE(same_bits(terms[place], want)) << "term " << place << " of " << count;
    }
  }
}

TYPED_TEST(TreeSum, WhatIsNotFiniteShowsInItsElementAlone) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (std::size_t count = 1; count <= TreeTerms::most; ++count) {
    auto terms = terms_of<TypeParam>(count, 70);
    for (std::size_t t = 0; t < count; ++t) terms[t][3 * t] = TypeParam(t % 2 == 0 ? std::nanf("") : infinity);
    const auto sum = summed(terms);
    EXPECT_TRUE(same_bits(sum, added(terms))) << count << " terms";
    for (std::size_t t = 0; t < count; ++t) EXPECT_FALSE(std::isfinite(static_cast<float>(sum[3 * t]))) << t;
    EXPECT_TRUE(std::isfinite(static_cast<float>(sum[1])));
  }
}

/// -0 + 0 is 0, so a term that is not there must not count as zero.
TYPED_TEST(TreeSum, OfMinusZerosIsMinusZero) {
  for (std::size_t count = 1; count <= TreeTerms::most; ++count) {
    const Arrays<TypeParam> terms(count, std::vector<TypeParam>(33, TypeParam(-0.0F)));
    EXPECT_TRUE(same_bits(summed(terms), terms.front())) << count << " terms";
  }
}

TEST(TreeSumOf, NoTermsOrTooManyIsRefused) {
  TreeTerms terms;
  float sum = 0;
  EXPECT_THROW(tree_sum(DType::f32, 1, terms, &sum), Error);
  terms.count = TreeTerms::most + 1;
  EXPECT_THROW(tree_sum(DType::f32, 1, terms, &sum), Error);
}

}  // namespace of_tree_sum_test
}  // namespace shoal::kernels::test
