// SPDX-License-Identifier: Apache-2.0
// Sums of terms over a block, in the scratch memory of a team.
#pragma once

#include <cstdint>

#include "../quant_format.hpp"
#include "quantize_block.hpp"
#include "shoal/base/error.hpp"
#include "shoal/kernels/quantize.hpp"

namespace shoal::kernels::portable {

/// The terms of a sum, as a kernel captures them: the caller's array is in host memory, which a GPU may not be able to read.
/// There are as many terms as a node has ranks, or as there are nodes. A CPU reads those after the first `most` from the
/// caller's array. On a GPU they are refused: it could add them by further launches only with memory for the sums of all
/// elements, which no caller provides.
class Terms {
 public:
  static constexpr std::size_t most = 48;

  explicit Terms(Span<const QuantTerm> terms) : all_(terms.data()), count_(terms.size()) {
    require(ends_at_once || count_ <= most, "a sum of ", count_, " terms; at most ", most, " are added on a GPU");
    for (std::size_t t = 0; t < most && t < count_; ++t) {
      at_[t] = memory_of(terms[t]);
      form_[t] = form_of(terms[t]);
    }
  }

  /// How a term is stored.
  enum class Form : std::uint8_t { f32, bf16, f16, int8, int4 };

  SHOAL_FUNCTION std::size_t count() const { return count_; }
  SHOAL_FUNCTION const void* at(std::size_t t) const { return t < most ? at_[t] : memory_of(all_[t]); }
  SHOAL_FUNCTION Form form(std::size_t t) const { return t < most ? form_[t] : form_of(all_[t]); }

 private:
  SHOAL_FUNCTION static const void* memory_of(const QuantTerm& term) {
    return term.values == nullptr ? term.quantized : term.values;
  }
  SHOAL_FUNCTION static Form form_of(const QuantTerm& term) {
    if (term.values == nullptr) return term.bits == 8 ? Form::int8 : Form::int4;
    if (term.type == DType::f32) return Form::f32;
    return term.type == DType::bf16 ? Form::bf16 : Form::f16;
  }

  const void* at_[most] = {};
  const QuantTerm* all_;
  std::size_t count_;
  Form form_[most] = {};
};

/// The elements of a block of n elements.
SHOAL_FUNCTION Range range_of_block(std::size_t n, std::size_t block, std::size_t index) {
  const std::size_t begin = index * block;
  return {begin, smaller(begin + block, n)};
}

/// Sums are followed by zeros up to a multiple of this number of elements.
inline constexpr std::size_t sum_granule = 16;

template <typename T>
SHOAL_FUNCTION void add_values(const Team& team, const void* values, Range range, bool first, float* sum) {
  const T* const from = static_cast<const T*>(values) + range.begin;
  if (first) {
    team.each(range.size(), [=](std::size_t i) { sum[i] = from[i]; });
  } else {
    team.each(range.size(), [=](std::size_t i) { sum[i] += static_cast<float>(from[i]); });
  }
}

template <class Code>
SHOAL_FUNCTION void add_codes(const Team& team, const Code& code, std::size_t n, const void* quantized, std::size_t index,
                              bool first, float* sum) {
  const auto from = block_of<Code::bits>(static_cast<const std::byte*>(quantized), n, code.block, index);
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
  for (std::size_t t = 0; t < terms.count(); ++t) {
    const void* const at = terms.at(t);
    switch (terms.form(t)) {
      case Form::f32: add_values<float>(team, at, range, t == 0, sum); break;
      case Form::bf16: add_values<bf16>(team, at, range, t == 0, sum); break;
      case Form::f16: add_values<f16>(team, at, range, t == 0, sum); break;
      case Form::int8: add_codes(team, code.template with<8>(), n, at, index, t == 0, sum); break;
      case Form::int4: add_codes(team, code.template with<4>(), n, at, index, t == 0, sum); break;
    }
    team.sync();  // another thread may add the next term's element
  }
  const std::size_t end = range.size();
  team.each(round_up(end, sum_granule) - end, [=](std::size_t i) { sum[end + i] = 0.0F; });
}

}  // namespace shoal::kernels::portable
