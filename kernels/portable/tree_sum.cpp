// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/tree_sum.hpp"

#include "kernels/portable/launch.hpp"
#include "shoal/base/error.hpp"

namespace shoal::kernels {

using namespace portable;

namespace {

/// Element i of the sum of the terms first ... first + width - 1, as far as there are so many; `first` is one of them, or
/// the result is not used. There is no branch, so a thread reads all its terms at the same time, and sums stay in registers.
template <typename T, std::size_t width>
SHOAL_FUNCTION T subtree(const TreeTerms& terms, std::size_t i, std::size_t first) {
  if constexpr (width == 1) {
    return static_cast<const T*>(terms.at[first < terms.count ? first : 0])[i];
  } else {
    const T left = subtree<T, width / 2>(terms, i, first), right = subtree<T, width / 2>(terms, i, first + width / 2);
    const T both = T(static_cast<float>(left) + static_cast<float>(right));
    return first + width / 2 < terms.count ? both : left;
  }
}

template <typename T, std::size_t width>
void sum_up_to(std::size_t n, const TreeTerms& terms, T* sum) {
  for_elements(
      "tree_sum", n, SHOAL_LAMBDA(std::size_t i) { sum[i] = subtree<T, width>(terms, i, 0); });
}

}  // namespace

void tree_sum(DType type, std::size_t n, const TreeTerms& terms, void* sum) {
  require(terms.count >= 1 && terms.count <= TreeTerms::most, "a sum of ", terms.count, " terms at once");
  dispatch(type, [&]<typename T>(T) {
    auto* const out = static_cast<T*>(sum);
    if (terms.count > 8) return sum_up_to<T, 16>(n, terms, out);
    if (terms.count > 4) return sum_up_to<T, 8>(n, terms, out);
    if (terms.count > 2) return sum_up_to<T, 4>(n, terms, out);
    sum_up_to<T, 2>(n, terms, out);
  });
}

}  // namespace shoal::kernels
