// SPDX-License-Identifier: Apache-2.0
#include "comm/collectives/quantized_blocks.hpp"

#include "shoal/base/error.hpp"
#include "shoal/base/names.hpp"

namespace shoal::comm {

using kernels::QuantError;
using kernels::QuantFormat;
using kernels::quantized_bytes;
using kernels::QuantTerm;

namespace {

/// Position of a span in a block: its number of elements, the elements before it, and the sent bytes before it for either
/// number of bits.
struct At {
  std::size_t count = 0, elements = 0, int8 = 0, int4 = 0;
  std::size_t wire(int bits) const { return bits == 8 ? int8 : int4; }
};

/// Calls f(span, at) for each span.
template <class F>
void for_spans(const Block& block, DType type, const QuantFormat& format, const F& f) {
  At at;
  for (std::size_t s = 0; s < block.size(); ++s) {
    at.count = block[s].size() / size_of(type);
    f(s, at);
    at.elements += at.count;
    at.int8 += quantized_bytes(at.count, {8, format.block});
    at.int4 += quantized_bytes(at.count, {4, format.block});
  }
}

std::vector<QuantTerm> terms_at(const std::vector<BlockTerm>& terms, DType type, std::size_t span, const At& at) {
  std::vector<QuantTerm> here;
  here.reserve(terms.size());
  for (const BlockTerm& term : terms) {
    if (term.values != nullptr) {
      here.push_back(QuantTerm::of(type, (*term.values)[span].data()));
    } else if (term.floats != nullptr) {
      here.push_back(QuantTerm::of(DType::f32, term.floats + at.elements));
    } else {
      here.push_back(QuantTerm::codes(term.bits, term.codes + at.wire(term.bits)));
    }
  }
  return here;
}

}  // namespace

void check_blocks(const Blocks& blocks, std::size_t ranks, DType type) {
  require(blocks.size() == ranks, "a quantized collective of ", ranks, " ranks got ", blocks.size(), " blocks");
  for (const Block& block : blocks) {
    for (const Span<std::byte> span : block) {
      require(span.size() % size_of(type) == 0, "a span of ", span.size(), " bytes does not consist of whole elements of ",
              name_of(type));
    }
  }
}

std::size_t elements_of(const Block& block, DType type) {
  std::size_t bytes = 0;
  for (const Span<std::byte> span : block) bytes += span.size();
  return bytes / size_of(type);
}

std::size_t wire_bytes(const Block& block, DType type, const QuantFormat& format) {
  std::size_t bytes = 0;
  for (const Span<std::byte> span : block) bytes += quantized_bytes(span.size() / size_of(type), format);
  return bytes;
}

std::size_t most_wire_bytes(std::size_t elements, std::size_t spans, const QuantFormat& format) {
  // A span's last block may be short, and its last byte half used.
  return quantized_bytes(elements, format) + spans * (sizeof(float) + 1);
}

void quantize_sum(const Block& block, DType type, const std::vector<BlockTerm>& terms, const QuantFormat& format,
                  float* residual, std::byte* wire) {
  for_spans(block, type, format, [&](std::size_t span, const At& at) {
    kernels::quantize(format, at.count, terms_at(terms, type, span, at),
                      residual == nullptr ? nullptr : residual + at.elements, wire + at.wire(format.bits));
  });
}

void sum_to_floats(const Block& block, DType type, const std::vector<BlockTerm>& terms, const QuantFormat& format,
                   float* floats) {
  for_spans(block, type, format, [&](std::size_t span, const At& at) {
    kernels::dequantize(format, at.count, terms_at(terms, type, span, at), DType::f32, floats + at.elements);
  });
}

void sum_to_block(const Block& block, DType type, const std::vector<BlockTerm>& terms, const QuantFormat& format) {
  for_spans(block, type, format, [&](std::size_t span, const At& at) {
    kernels::dequantize(format, at.count, terms_at(terms, type, span, at), type, block[span].data());
  });
}

void add_error(const Block& block, DType type, const std::byte* wire, const QuantFormat& format, QuantError* parts) {
  if (parts == nullptr) return;
  for_spans(block, type, format, [&](std::size_t span, const At& at) {
    kernels::add_quantization_error(format, type, at.count, block[span].data(), wire + at.wire(format.bits), parts);
  });
}

}  // namespace shoal::comm
