// SPDX-License-Identifier: Apache-2.0
// What the threads of a team do together. Each backend has a class Team that derives from TeamOperations<Team> and defines
//   thread(), threads()   this thread's index, and their number: 1, 2, 4, 8, 16, 32 or more
//   sync()                waits for all threads of the team; what one wrote before it, the others can read after it
//   scratch()             the team's scratch memory, which begins at a cache line; its contents are undefined at first
//   chain_sums()          rules::chains floats of scratch memory beside it, for sum() and max()
#pragma once

#include <cstddef>

#include "kernels/rules/row_sums.hpp"
#include "shoal/base/types.hpp"

// The iterations of the next loop do not depend on one another.
#if defined(__clang__)
#define SHOAL_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__) && !defined(__CUDACC__)
#define SHOAL_INDEPENDENT _Pragma("GCC ivdep")
#else
#define SHOAL_INDEPENDENT
#endif

// The next loop, of a constant number of iterations, becomes straight code, so that an array that it indexes stays in
// registers.
#if defined(__CUDACC__)
#define SHOAL_UNROLL _Pragma("unroll")
#else
#define SHOAL_UNROLL
#endif

namespace shoal::kernels::portable {

SHOAL_FUNCTION constexpr std::size_t smaller(std::size_t a, std::size_t b) { return a < b ? a : b; }
/// Number of parts of this size into which a whole is cut; the last one may be smaller.
SHOAL_FUNCTION constexpr std::size_t parts(std::size_t whole, std::size_t part) { return (whole + part - 1) / part; }

template <class Backend>
class TeamOperations {
 public:
  /// Calls f(i) for each i in 0 .. n-1, distributed over the threads. Does not wait for the other threads.
  template <class F>
  SHOAL_FUNCTION void each(std::size_t n, const F& f) const {
    if (self().threads() == 1) {
      SHOAL_INDEPENDENT
      for (std::size_t i = 0; i < n; ++i) f(i);
    } else {
      for (std::size_t i = self().thread(); i < n; i += self().threads()) f(i);
    }
  }

  /// Calls f(row, column) for each pair, distributed over the threads. Does not wait for the other threads.
  template <class F>
  SHOAL_FUNCTION void each_pair(std::size_t rows, std::size_t columns, const F& f) const {
    if (self().threads() == 1) {
      for (std::size_t row = 0; row < rows; ++row) {
        SHOAL_INDEPENDENT
        for (std::size_t column = 0; column < columns; ++column) f(row, column);
      }
    } else {
      for (std::size_t i = self().thread(); i < rows * columns; i += self().threads()) f(i / columns, i % columns);
    }
  }

  /// Returns the sum over 0 .. n-1 to all threads, in the order of rules/row_sums.hpp. term(i, sum) adds term i to `sum`.
  /// All threads of the team must call it, and it waits for them. Two threads that run ahead of one another do not disturb
  /// it.
  template <class Term>
  SHOAL_FUNCTION float sum(std::size_t n, const Term& term) const {
    if (self().threads() == 1) return sum_on_one_thread(n, term);
    float* const sums = self().chain_sums();
    each(rules::chains, [&](std::size_t chain) {
      float sum = 0.0F;
      for (std::size_t i = chain; i < n; i += rules::chains) term(i, sum);
      sums[chain] = sum;
    });
    self().sync();
    each(32, [&](std::size_t l) { sums[l + l / 16 * 16] += sums[l + l / 16 * 16 + 16]; });
    self().sync();
    each(16, [&](std::size_t l) { sums[l] += sums[l + 32]; });
    for (std::size_t distance = 8; distance > 0; distance /= 2) {
      self().sync();
      each(distance, [&](std::size_t l) { sums[l] += sums[l + distance]; });
    }
    self().sync();
    const float total = sums[0];
    self().sync();  // before sums is used again
    return total;
  }

  /// The largest of value(i) over 0 .. n-1 and `least`, to all threads. Waits as sum() does. NaN are left out.
  template <class N, class Value>
  SHOAL_FUNCTION N max(std::size_t n, N least, const Value& value) const {
    static_assert(sizeof(N) == sizeof(float));
    const auto larger = [](N a, N b) { return a > b ? a : b; };
    if (self().threads() == 1) {
      N found[rules::chains];
      for (N& chain : found) chain = least;
      on_one_thread(n, [&](std::size_t i, std::size_t chain) { found[chain] = larger(value(i), found[chain]); });
      for (const N chain : found) least = larger(chain, least);
      return least;
    }
    auto* const found = reinterpret_cast<N*>(self().chain_sums());
    each(rules::chains, [&](std::size_t chain) {
      N largest = least;
      for (std::size_t i = chain; i < n; i += rules::chains) largest = larger(value(i), largest);
      found[chain] = largest;
    });
    for (std::size_t distance = rules::chains / 2; distance > 0; distance /= 2) {
      self().sync();
      each(distance, [&](std::size_t l) { found[l] = larger(found[l], found[l + distance]); });
    }
    self().sync();
    const N largest = found[0];
    self().sync();
    return largest;
  }

 private:
  SHOAL_FUNCTION const Backend& self() const { return static_cast<const Backend&>(*this); }

  template <class Term>
  SHOAL_FUNCTION static float sum_on_one_thread(std::size_t n, const Term& term) {
    float sums[rules::chains] = {};
    on_one_thread(n, [&](std::size_t i, std::size_t chain) { term(i, sums[chain]); });
    return rules::join_chains(sums);
  }

  /// Calls f(i, chain of i) for all chains side by side, so that a compiler can make vectors of them.
  template <class F>
  SHOAL_FUNCTION static void on_one_thread(std::size_t n, const F& f) {
    std::size_t first = 0;
    for (; first + rules::chains <= n; first += rules::chains) {
      SHOAL_INDEPENDENT
      for (std::size_t chain = 0; chain < rules::chains; ++chain) f(first + chain, chain);
    }
    for (std::size_t chain = 0; first + chain < n; ++chain) f(first + chain, chain);
  }
};

}  // namespace shoal::kernels::portable
