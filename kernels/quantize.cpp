// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/quantize.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "loops.hpp"
#include "quantize_block.hpp"
#include "shoal/base/error.hpp"

namespace shoal::kernels {

using simd::Floats;
using simd::for_vectors;
using simd::load;
using simd::store;

namespace {

void check(const QuantFormat& format, Span<const QuantTerm> terms) {
  const std::string problem = problem_of(format);
  require(problem.empty(), problem);
  require(!terms.empty(), "a sum of no terms was to be quantized");
  for (const QuantTerm& term : terms) {
    const std::string other = term.values == nullptr ? problem_of({term.bits, format.block}) : "";
    require(other.empty(), other);
  }
}

std::size_t blocks_in(std::size_t n, std::size_t block) { return (n + block - 1) / block; }

/// The scale and the codes of one block.
template <class Byte>
struct QuantBlock {
  Byte *scale, *codes;
};
template <int bits, class Byte>
QuantBlock<Byte> block_of(Byte* quantized, std::size_t n, std::size_t block, std::size_t index) {
  Byte* const codes = quantized + blocks_in(n, block) * sizeof(float);
  return {quantized + index * sizeof(float), Codes<bits>::at(codes, index * block)};
}

/// Calls f with the DeepSpeedCode or AccurateCode of the format.
template <class F>
void with_code(const QuantFormat& format, const F& f) {
  const std::size_t block = format.block;
  if (format.rounding == QuantRounding::deepspeed) {
    format.bits == 8 ? f(DeepSpeedCode<8>(block)) : f(DeepSpeedCode<4>(block));
  } else {
    format.bits == 8 ? f(AccurateCode<8>(block)) : f(AccurateCode<4>(block));
  }
}

/// Calls body(index, begin, count) for each block of n elements. A work item has several blocks.
template <class Body>
void for_blocks(const char* label, std::size_t n, std::size_t block, const Body& body) {
  const std::size_t blocks = blocks_in(n, block), per_item = std::max<std::size_t>(1, item_elements / block);
  parallel_for(label, blocks_in(blocks, per_item), [=, &body](std::size_t item) {
    const std::size_t end = std::min(blocks, (item + 1) * per_item);
    for (std::size_t b = item * per_item; b < end; ++b) body(b, b * block, std::min(block, n - b * block));
  });
}

/// Elements that are prefetched ahead of the loop: memory answers while a block is processed in the cache.
constexpr std::size_t ahead = 1024;

/// sum = or += the values of one block's codes.
template <class Code>
void decode_block(const Code& code, std::size_t n, const std::byte* quantized, std::size_t index, std::size_t count,
                  Decode decode, float* sum) {
  const auto block = block_of<Code::bits>(quantized, n, code.block, index);
  decode == Decode::replace ? code.template decode<Decode::replace>(block.scale, block.codes, count, sum)
                            : code.template decode<Decode::add>(block.scale, block.codes, count, sum);
}

/// The sum of the terms over one block: the first term is stored, the others are added.
template <class Code>
void sum_block(const Code& code, std::size_t n, Span<const QuantTerm> terms, std::size_t index, std::size_t begin,
               std::size_t count, float* sum) {
  bool first = true;
  for (const QuantTerm& term : terms) {
    if (term.values == nullptr) {
      const Decode decode = first ? Decode::replace : Decode::add;
      term.bits == 8 ? decode_block(code.template with<8>(), n, term.quantized, index, count, decode, sum)
                     : decode_block(code.template with<4>(), n, term.quantized, index, count, decode, sum);
    } else {
      dispatch(term.type, [&]<typename T>(T) {
        const T* const values = static_cast<const T*>(term.values) + begin;
        for_vectors(count, [=](std::size_t i, auto part) {
          __builtin_prefetch(values + i + ahead);
          const Floats v = load(values + i, part);
          store(sum + i, first ? v : load(sum + i, part) + v, part);
        });
      });
    }
    first = false;
  }
}

using BlockBuffer = std::array<float, longest_quant_block>;

}  // namespace

std::string problem_of(const QuantFormat& format) {
  if (format.bits != 8 && format.bits != 4) return text("quantization to ", format.bits, " bits; allowed: 8, 4");
  if (format.block == 0 || format.block > longest_quant_block) {
    return text("a quantization block of ", format.block, " elements; allowed: 1 to ", longest_quant_block);
  }
  if (format.bits == 4 && format.block % 2 != 0) {
    const std::string below = format.block > 1 ? text(format.block - 1, ", ") : "";
    return text("INT4 packs two elements in a byte: a quantization block of ", format.block, " is odd; nearest: ", below,
                format.block + 1);
  }
  return {};
}

void quantize(const QuantFormat& format, std::size_t n, Span<const QuantTerm> terms, float* residual, std::byte* out) {
  check(format, terms);
  with_code(format, [&]<class Code>(const Code& code) {
    for_blocks("quantize", n, format.block, [&](std::size_t index, std::size_t begin, std::size_t count) {
      alignas(64) BlockBuffer sum;  // NOLINT(cppcoreguidelines-pro-type-member-init): written before it is read
      sum_block(code, n, terms, index, begin, count, sum.data());
      const auto block = block_of<Code::bits>(out, n, format.block, index);
      if (residual == nullptr) return code.encode(sum.data(), count, block.scale, block.codes);
      float* const kept = residual + begin;
      for_vectors(count, [&](std::size_t i, auto part) {
        store(sum.data() + i, load(sum.data() + i, part) + load(kept + i, part), part);
      });
      code.encode(sum.data(), count, block.scale, block.codes);
      if (code.overflowed(block.scale)) return;
      for_vectors(count, [&](std::size_t i, auto part) { store(kept + i, load(sum.data() + i, part), part); });
      code.template decode<Decode::subtract>(block.scale, block.codes, count, kept);
    });
  });
}

void dequantize(const QuantFormat& format, std::size_t n, Span<const QuantTerm> terms, DType type, void* y) {
  check(format, terms);
  with_code(format, [&]<class Code>(const Code& code) {
    for_blocks("dequantize", n, format.block, [&](std::size_t index, std::size_t begin, std::size_t count) {
      alignas(64) BlockBuffer sum;  // NOLINT(cppcoreguidelines-pro-type-member-init): written before it is read
      sum_block(code, n, terms, index, begin, count, sum.data());
      dispatch(type, [&]<typename T>(T) {
        T* const to = static_cast<T*>(y) + begin;
        for_vectors(count, [&](std::size_t i, auto part) {
          __builtin_prefetch(to + i + ahead, 1);
          store(to + i, load(sum.data() + i, part), part);
        });
      });
    });
  });
}

QuantError quantization_error(const QuantFormat& format, DType type, std::size_t n, const void* x,
                              const std::byte* quantized) {
  const QuantTerm term = QuantTerm::of(type, x);
  check(format, {&term, 1});
  std::vector<QuantError> of_block(blocks_in(n, format.block));
  with_code(format, [&]<class Code>(const Code& code) {
    for_blocks("quantization_error", n, format.block, [&](std::size_t index, std::size_t begin, std::size_t count) {
      alignas(64) BlockBuffer error;  // NOLINT(cppcoreguidelines-pro-type-member-init): written before it is read
      sum_block(code, n, {&term, 1}, index, begin, count, error.data());
      const auto squares = [&] {
        simd::Doubles sum{};
        for_vectors(count, [&](std::size_t i, auto part) {
          const Floats v = load(error.data() + i, part);
          const simd::Doubles low = simd::lower(v), high = simd::upper(v);
          sum += low * low + high * high;
        });
        return simd::sum(sum);
      };
      of_block[index].values = squares();
      const auto block = block_of<Code::bits>(quantized, n, format.block, index);
      code.template decode<Decode::subtract>(block.scale, block.codes, count, error.data());
      of_block[index].errors = squares();
    });
  });
  QuantError sum;
  for (const QuantError& error : of_block) sum += error;
  return sum;
}

}  // namespace shoal::kernels
