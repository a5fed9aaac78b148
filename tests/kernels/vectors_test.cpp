// SPDX-License-Identifier: Apache-2.0
// The operators and exchanges of vectors against the same on each lane: in builds for AVX2 they are a class of our own.
#include "kernels/cpu/vectors/vectors.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <limits>
#include <type_traits>

#include "kernels/cpu/vectors/lanes.hpp"

namespace shoal::kernels::simd {
namespace of_vectors_test {

template <typename E>
using Lanes = std::array<E, 64 / sizeof(E)>;

template <typename E, class V>
Lanes<E> lanes_of(V v) {
  Lanes<E> lanes;
  store_bytes(lanes.data(), v);
  return lanes;
}
template <class V, typename E>
V vector_of(const Lanes<E>& lanes) {
  return load_bytes<V>(lanes.data());
}

/// first, first + step, ...
template <typename E>
Lanes<E> series(E first, E step) {
  Lanes<E> lanes{};
  for (E& lane : lanes) {
    lane = first;
    first = static_cast<E>(first + step);
  }
  return lanes;
}

/// Expects rule(vectors) to have the lanes of rule(elements).
template <class V, typename E, class Rule>
void expect_by_lane(const Lanes<E>& a, const Lanes<E>& b, const Rule& rule) {
  const Lanes<E> got = lanes_of<E>(rule(vector_of<V>(a), vector_of<V>(b)));
  for (std::size_t l = 0; l < got.size(); ++l) EXPECT_EQ(got[l], rule(a[l], b[l])) << "lane " << l;
}

template <class V, typename E>
void check_arithmetic(const Lanes<E>& a, const Lanes<E>& b) {
  expect_by_lane<V>(a, b, [](auto x, auto y) { return x + y; });
  expect_by_lane<V>(a, b, [](auto x, auto y) { return x - y; });
  expect_by_lane<V>(a, b, [](auto x, auto y) { return x * y; });
  expect_by_lane<V>(a, b, [](auto x, auto y) { return -x + y * E{3}; });
  expect_by_lane<V>(a, b, [](auto x, auto y) {
    x += y;
    x *= y;
    x -= y;
    return x;
  });
}
TEST(Vectors, Floats) {
  const auto a = series(-3.7F, 1.3F), b = series(9.1F, -0.7F);
  check_arithmetic<Floats>(a, b);
  expect_by_lane<Floats>(a, b, [](auto x, auto y) { return x / (1.0F + y * y); });
}
TEST(Vectors, Doubles) { check_arithmetic<Doubles>(series(-3.7, 1.3), series(9.1, -0.7)); }
TEST(Vectors, Ints) {
  const auto a = series(-700, 93), b = series(5, 17);
  check_arithmetic<Ints>(a, b);
  expect_by_lane<Ints>(a, b, [](auto x, auto y) { return ((x >> 3) & ~y) | (y << 2); });
}
TEST(Vectors, Words) {
  const auto a = series(0x12345678U, 0x9abcdef1U), b = series(0xfedcba98U, 0x76543211U);
  expect_by_lane<Words>(a, b, [](auto x, auto y) { return ((x >> 3U) ^ y) + (y << 2U) - 7U; });
}

TEST(Vectors, ComparisonsAreMasks) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  auto a = series(-4.0F, 1.0F), b = series(11.0F, -1.0F);
  a[2] = b[2];
  a[11] = b[12] = nan;
  const auto x = vector_of<Floats>(a), y = vector_of<Floats>(b);
  const auto expect = [&](Ints mask, const auto& holds) {
    const auto chosen = lanes_of<float>(select(mask, x, y));
    const auto lanes = lanes_of<std::int32_t>(mask);
    for (std::size_t l = 0; l < width; ++l) {
      EXPECT_EQ(lanes[l], holds(a[l], b[l]) ? -1 : 0) << "lane " << l;
      EXPECT_EQ(std::bit_cast<std::uint32_t>(chosen[l]), std::bit_cast<std::uint32_t>(holds(a[l], b[l]) ? a[l] : b[l]));
    }
  };
  expect(x < y, [](float p, float q) { return p < q; });
  expect(x > y, [](float p, float q) { return p > q; });
  expect(x <= y, [](float p, float q) { return p <= q; });
  expect(x >= y, [](float p, float q) { return p >= q; });
  expect(x == y, [](float p, float q) { return p == q; });
  expect(x != y, [](float p, float q) { return p != q; });
}

TEST(Vectors, SmallerAndLarger) {
  const auto a = series(0xfffffff8U, 1U), b = series(7U, 0x10000000U);
  expect_by_lane<Words>(a, b, [](auto x, auto y) {
    if constexpr (std::is_same_v<decltype(x), Words>) return smaller(x, y) + larger(x, y) * 3U;
    if constexpr (!std::is_same_v<decltype(x), Words>) return (x < y ? x : y) + (x > y ? x : y) * 3U;
  });
  const auto c = series(-8, 1), d = series(7, -1);
  expect_by_lane<Ints>(c, d, [](auto x, auto y) {
    if constexpr (std::is_same_v<decltype(x), Ints>) return smaller(x, y) + larger(x, y) * 3;
    if constexpr (!std::is_same_v<decltype(x), Ints>) return (x < y ? x : y) + (x > y ? x : y) * 3;
  });
}

TEST(Vectors, LanesCastsAndConversions) {
  const auto numbers = lane_numbers();
  const auto floats = to_floats(numbers);
  const auto words = cast<Words>(floats);
  for (std::size_t l = 0; l < width; ++l) {
    EXPECT_EQ(numbers[l], static_cast<std::int32_t>(l));
    EXPECT_EQ(floats[l], static_cast<float>(l));
    EXPECT_EQ(words[l], std::bit_cast<std::uint32_t>(static_cast<float>(l)));
  }
}

template <std::size_t distance, class V, typename E>
void check_exchange(const Lanes<E>& x) {
  const auto got = lanes_of<E>(exchanged<distance>(vector_of<V>(x)));
  for (std::size_t l = 0; l < got.size(); ++l) EXPECT_EQ(got[l], x[l ^ distance]) << distance << ", lane " << l;
}
TEST(Vectors, ExchangedLanes) {
  check_exchange<8, Floats>(series(1.0F, 1.0F));
  check_exchange<4, Floats>(series(1.0F, 1.0F));
  check_exchange<2, Floats>(series(1.0F, 1.0F));
  check_exchange<1, Words>(series(1U, 1U));
  check_exchange<4, Doubles>(series(1.0, 1.0));
  check_exchange<2, Doubles>(series(1.0, 1.0));
}

template <std::size_t distance>
void check_blocks() {
  const auto a = series(0U, 1U), b = series(100U, 1U);
  auto x = vector_of<Words>(a), y = vector_of<Words>(b);
  exchange_blocks<distance>(x, y);
  for (std::size_t l = 0; l < width; ++l) {
    const bool upper = (l & distance) != 0;
    EXPECT_EQ(x[l], upper ? b[l - distance] : a[l]) << distance << ", lane " << l;
    EXPECT_EQ(y[l], upper ? b[l] : a[l + distance]) << distance << ", lane " << l;
  }
}
TEST(Vectors, ExchangedBlocks) {
  check_blocks<8>();
  check_blocks<4>();
  check_blocks<2>();
  check_blocks<1>();
}

template <std::size_t group, std::size_t half>
void check_interleaving() {
  const auto a = series(0.0F, 1.0F), b = series(100.0F, 1.0F);
  const auto got = lanes_of<float>(interleaved<group, half>(vector_of<Floats>(a), vector_of<Floats>(b)));
  std::size_t at = 0;
  for (std::size_t from = half * width / 2; from < (half + 1) * width / 2; from += group) {
    for (const auto& source : {a, b}) {
      for (std::size_t l = from; l < from + group; ++l) EXPECT_EQ(got[at++], source[l]) << group << " " << half;
    }
  }
}
TEST(Vectors, Interleaved) {
  check_interleaving<1, 0>();
  check_interleaving<1, 1>();
  check_interleaving<2, 0>();
  check_interleaving<2, 1>();
}

}  // namespace of_vectors_test
}  // namespace shoal::kernels::simd
