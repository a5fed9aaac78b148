// SPDX-License-Identifier: Apache-2.0
// A random permutation of 0 .. n-1 that is computed element by element and never stored.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shoal::data {

/// A Feistel network over the next power of four, applied until the result is below n (Black and Rogaway, "Ciphers with
/// arbitrary finite domains", CT-RSA 2002). Its round function is Philox with the key `seed`; `number` chooses one of the
/// permutations of a seed.
class Permutation {
 public:
  Permutation(std::size_t n, std::uint64_t seed, std::uint64_t number);
  /// The element that i < n is mapped to.
  std::size_t operator()(std::size_t i) const;

 private:
  std::size_t n_;
  std::uint64_t key_, number_;
  unsigned half_bits_ = 0;
};

}  // namespace shoal::data
