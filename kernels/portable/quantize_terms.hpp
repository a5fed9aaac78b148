// SPDX-License-Identifier: Apache-2.0
// Sums of terms over a block, in the scratch memory of a team.
#pragma once

#include <cstdint>

#include "kernels/common/quant_format.hpp"
#include "kernels/portable/quantize_block.hpp"
#include "shoal/base/error.hpp"
#include "shoal/kernels/quantize.hpp"

namespace shoal::kernels::portable {

/// The terms of a sum, as a kernel captures them: the caller's array is in host memory, which a GPU may not be able to read.
/// There are as many terms as a node has ranks, or as there are nodes: more than a kernel can capture one by one. But they
/// lie in few series, whose terms have one form and equal distances, since messages arrive in regions one after another.
class Terms {
 public:
  /// How a term is stored.
  enum class Form : std::uint8_t { f32, bf16, f16, int8, int4 };
  static constexpr std::uint32_t most_series = 6;

  explicit Terms(Span<const QuantTerm> terms) {
    for (const QuantTerm& term : terms) {
      if (count_ > 0 && series_[count_ - 1].takes(term)) continue;
      require(count_ < most_series, "a sum of ", terms.size(), " terms, which do not lie in ", most_series,
              " series at equal distances");
      series_[count_++] = {static_cast<const std::byte*>(memory_of(term)), 0, 1, form_of(term)};
    }
  }

  /// f(form, where the term is, whether it is the first one) for each term, in order.
  template <class F>
  SHOAL_FUNCTION void each(const F& f) const {
    for (std::uint32_t s = 0; s < count_; ++s) {
      const Series& series = series_[s];
      for (std::uint32_t t = 0; t < series.count; ++t) f(series.form, series.first + t * series.distance, s == 0 && t == 0);
    }
  }

 private:
  static const void* memory_of(const QuantTerm& term) { return term.values == nullptr ? term.quantized : term.values; }
  static Form form_of(const QuantTerm& term) {
    if (term.values == nullptr) return term.bits == 8 ? Form::int8 : Form::int4;
    if (term.type == DType::f32) return Form::f32;
    return term.type == DType::bf16 ? Form::bf16 : Form::f16;
  }

  struct Series {
    const std::byte* first;
    std::ptrdiff_t distance;  ///< bytes from one term to the next
    std::uint32_t count;
    Form form;

    /// Adds the term, if it goes on with the series. The second term of a series decides the distance.
    bool takes(const QuantTerm& term) {
      const auto bytes = reinterpret_cast<std::intptr_t>(memory_of(term)) - reinterpret_cast<std::intptr_t>(first);
      if (form != form_of(term) || (count > 1 && bytes != distance * static_cast<std::ptrdiff_t>(count))) return false;
      if (count == 1) distance = bytes;
      ++count;
      return true;
    }
  };

  Series series_[most_series] = {};
  std::uint32_t count_ = 0;
};

/// The elements of a block of n elements.
SHOAL_FUNCTION Range range_of_block(std::size_t n, std::size_t block, std::size_t index) {
  const std::size_t begin = index * block;
  return {begin, smaller(begin + block, n)};
}

/// Sums are followed by zeros up to a multiple of this number of elements.
inline constexpr std::size_t sum_granule = 16;

template <typename T>
SHOAL_FUNCTION void add_values(const Team& team, const std::byte* values, Range range, bool first, float* sum) {
  const T* const from = reinterpret_cast<const T*>(values) + range.begin;
  if (first) {
    team.each(range.size(), [=](std::size_t i) { sum[i] = from[i]; });
  } else {
    team.each(range.size(), [=](std::size_t i) { sum[i] += static_cast<float>(from[i]); });
  }
}

template <class Code>
SHOAL_FUNCTION void add_codes(const Team& team, const Code& code, std::size_t n, const std::byte* quantized,
                              std::size_t index, bool first, float* sum) {
  const auto from = block_of<Code::bits>(quantized, n, code.block, index);
  const std::size_t count = range_of_block(n, code.block, index).size();
  const std::uint32_t scales = load_scales(from.scales);
  if (first) {
    decode<Decode::replace>(team, code, scales, from.codes, count, sum);
  } else {
    decode<Decode::add>(team, code, scales, from.codes, count, sum);
  }
}

/// sum = the sum of the terms over one block: the first term is stored, the others are added in their order. The sum is
/// complete when it returns, and the zeros behind it after the next sync().
template <class Code>
SHOAL_FUNCTION void add_terms(const Team& team, const Code& code, std::size_t n, const Terms& terms, std::size_t index,
                              float* sum) {
  using Form = Terms::Form;
  const Range range = range_of_block(n, code.block, index);
  terms.each([&](Form form, const std::byte* at, bool first) {
    switch (form) {
      case Form::f32: add_values<float>(team, at, range, first, sum); break;
      case Form::bf16: add_values<bf16>(team, at, range, first, sum); break;
      case Form::f16: add_values<f16>(team, at, range, first, sum); break;
      case Form::int8: add_codes(team, code.template with<8>(), n, at, index, first, sum); break;
      case Form::int4: add_codes(team, code.template with<4>(), n, at, index, first, sum); break;
    }
    team.sync();  // another thread may add the next term's element
  });
  const std::size_t end = range.size();
  team.each(round_up(end, sum_granule) - end, [=](std::size_t i) { sum[end + i] = 0.0F; });
}

}  // namespace shoal::kernels::portable
