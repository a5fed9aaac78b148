// SPDX-License-Identifier: Apache-2.0
#include "data/permutation.hpp"

#include "shoal/base/error.hpp"
#include "shoal/base/philox.hpp"

namespace shoal::data {

namespace {

/// "order": the key differs from those of other random numbers with the same seed.
constexpr std::uint64_t order_domain = 0x6f72646572;

/// Four rounds give a pseudo-random permutation of a large domain (Luby and Rackoff 1988); small domains, of a few bits,
/// need more.
constexpr std::uint32_t rounds = 8;

}  // namespace

Permutation::Permutation(std::size_t n, std::uint64_t seed, std::uint64_t number)
    : n_(n), key_(seed ^ order_domain), number_(number) {
  require(n > 0 && n <= (std::size_t{1} << 62U), "a permutation of ", n, " elements");
  while ((std::size_t{1} << (2 * half_bits_)) < n) ++half_bits_;
}

std::size_t Permutation::operator()(std::size_t i) const {
  require(i < n_, "element ", i, " of a permutation of ", n_);
  const std::size_t mask = (std::size_t{1} << half_bits_) - 1;
  const auto low = static_cast<std::uint32_t>(number_);
  const auto high = static_cast<std::uint32_t>(number_ >> 32U);
  do {
    std::size_t left = i >> half_bits_;
    std::size_t right = i & mask;
    for (std::uint32_t round = 0; round < rounds; ++round) {
      const Philox4 random = philox(key_, {static_cast<std::uint32_t>(right), round, low, high});
      const std::size_t next = left ^ (random[0] & mask);
      left = right;
      right = next;
    }
    i = (left << half_bits_) | right;
  } while (i >= n_);
  return i;
}

}  // namespace shoal::data
