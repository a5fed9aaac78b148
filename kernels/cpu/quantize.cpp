// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/quantize.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/common/quant_format.hpp"
#include "kernels/cpu/quantize_block.hpp"
#include "kernels/cpu/vectors/loops.hpp"

namespace shoal::kernels {

using simd::Floats;
using simd::for_vectors;
using simd::load;
using simd::store;

namespace {

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
                  Decode mode, float* sum) {
  const auto block = block_of<Code::bits>(quantized, n, code.block, index);
  mode == Decode::replace ? decode<Decode::replace>(code, block.scales, block.codes, count, sum)
                          : decode<Decode::add>(code, block.scales, block.codes, count, sum);
}

/// The sum of the terms over one block: the first term is stored, the others are added.
template <class Code>
void sum_block(const Code& code, std::size_t n, Span<const QuantTerm> terms, std::size_t index, std::size_t begin,
               std::size_t count, float* sum) {
  bool first = true;
  for (const QuantTerm& term : terms) {
    if (term.values == nullptr) {
      const Decode mode = first ? Decode::replace : Decode::add;
      term.bits == 8 ? decode_block(code.template with<8>(), n, term.quantized, index, count, mode, sum)
                     : decode_block(code.template with<4>(), n, term.quantized, index, count, mode, sum);
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

void quantize(const QuantFormat& format, std::size_t n, Span<const QuantTerm> terms, float* residual, std::byte* out) {
  check_quantization(format, terms);
  with_code(format, [&]<class Code>(const Code& code) {
    for_blocks("quantize", n, format.block, [&](std::size_t index, std::size_t begin, std::size_t count) {
      alignas(64) BlockBuffer sum;  // NOLINT(cppcoreguidelines-pro-type-member-init): written before it is read
      sum_block(code, n, terms, index, begin, count, sum.data());
      const auto block = block_of<Code::bits>(out, n, format.block, index);
      if (residual == nullptr) {
        encode(code, sum.data(), count, block.scales, block.codes);
        return;
      }
      float* const kept = residual + begin;
      for_vectors(count, [&](std::size_t i, auto part) {
        store(sum.data() + i, load(sum.data() + i, part) + load(kept + i, part), part);
      });
      const std::uint32_t scales = encode(code, sum.data(), count, block.scales, block.codes);
      if (typename Code::Decoder(scales).overflowed()) return;
      for_vectors(count, [&](std::size_t i, auto part) { store(kept + i, load(sum.data() + i, part), part); });
      decode<Decode::subtract>(code, block.scales, block.codes, count, kept);
    });
  });
}

void dequantize(const QuantFormat& format, std::size_t n, Span<const QuantTerm> terms, DType type, void* y) {
  check_quantization(format, terms);
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

void add_quantization_error(const QuantFormat& format, DType type, std::size_t n, const void* x, const std::byte* quantized,
                            QuantError* parts) {
  const QuantTerm term = QuantTerm::of(type, x);
  check_quantization(format, {&term, 1});
  std::vector<QuantError> of_block(blocks_in(n, format.block));
  with_code(format, [&]<class Code>(const Code& code) {
    for_blocks("add_quantization_error", n, format.block, [&](std::size_t index, std::size_t begin, std::size_t count) {
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
      decode<Decode::subtract>(code, block.scales, block.codes, count, error.data());
      of_block[index].errors = squares();
    });
  });
  for (std::size_t index = 0; index < of_block.size(); ++index) parts[index % quant_error_parts] += of_block[index];
}

}  // namespace shoal::kernels
