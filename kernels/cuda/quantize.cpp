// SPDX-License-Identifier: Apache-2.0
// Quantization on a GPU: some threads of a warp for each block, whose sum they keep in registers. On an H200 portable teams
// of 128 threads took 5 to 20 times as long for blocks of 256: a thread had two elements, and waited at a dozen barriers. A
// whole warp for 256 elements takes 1.5 times as long to INT8, where the scales cost more than the codes, and 0.8 times as
// long back.
//
// A block is cut into four or eight chunks, and each thread has eight neighbouring elements of every chunk, so that the
// parts of a block are whole chunks. Blocks of 256, 512, 1024 and 2048 are quantized so, if the arrays are aligned; teams
// quantize the others.
#include "shoal/kernels/quantize.hpp"

#include "kernels/cuda/eight_elements.hpp"
#include "kernels/portable/quantize_teams.hpp"

namespace shoal::kernels {

using namespace portable;

namespace {

using namespace cuda;

constexpr unsigned threads = 128;
constexpr unsigned everyone = 0xffffffffU;

/// How a block is distributed over neighbouring threads.
template <unsigned count, unsigned per_thread>
struct Shared {
  static constexpr unsigned lanes = count, chunks = per_thread, block = lanes * chunks * own;

  /// The block of this thread.
  static __device__ std::size_t index() {
    return static_cast<std::size_t>(blockIdx.x) * (threads / lanes) + threadIdx.x / lanes;
  }
  /// The thread's first element of chunk c, in the block.
  static __device__ unsigned first(unsigned c) { return (c * lanes + threadIdx.x % lanes) * own; }
  /// The part to which chunk c belongs. A shorter last block is cut where a whole one is.
  template <class Code>
  static __device__ constexpr unsigned part(unsigned c) {
    return c * static_cast<unsigned>(Code::parts) / chunks;
  }
  /// The maximum over the threads of a block.
  static __device__ std::uint32_t largest(std::uint32_t value) {
#pragma unroll
    for (unsigned distance = lanes / 2; distance > 0; distance /= 2) {
      value = max(value, __shfl_xor_sync(everyone, value, static_cast<int>(distance)));
    }
    return value;
  }
};

/// What a thread has of its block. Elements beyond the block are zeros, which are never stored.
template <class S>
struct Own {
  Eight at[S::chunks];
};

/// f(c) for each chunk.
template <class S, class F>
__device__ void each_chunk(const F& f) {
#pragma unroll
  for (unsigned c = 0; c < S::chunks; ++c) f(c);
}

template <class Code>
__device__ Eight values_of(const EightCodes<Code::bits>& codes, float unit) {
  Eight values;
#pragma unroll
  for (unsigned i = 0; i < own; ++i) values.at[i] = Code::value(rules::Number<float>::floats(codes[i])) * unit;
  return values;
}

/// Adds a term, or stores the first one. read(c) returns the term's elements of chunk c.
template <class S, class Read>
__device__ void add_term(bool first, Own<S>& sum, const Read& read) {
  Own<S> more;
  each_chunk<S>([&](unsigned c) { more.at[c] = read(c); });
  each_chunk<S>([&](unsigned c) {
#pragma unroll
    for (unsigned i = 0; i < own; ++i) sum.at[c].at[i] = first ? more.at[c].at[i] : sum.at[c].at[i] + more.at[c].at[i];
  });
}
template <class S, typename T>
__device__ void add_values(const std::byte* values, Range range, bool first, Own<S>& sum) {
  const T* const from = reinterpret_cast<const T*>(values) + range.begin;
  const auto count = static_cast<unsigned>(range.size());
  add_term(first, sum, [&](unsigned c) { return load_some(from, S::first(c), count); });
}
template <class S, class Code>
__device__ void add_codes(const Code& code, std::size_t n, const std::byte* quantized, std::size_t index, bool first,
                          Own<S>& sum) {
  const auto from = block_of<Code::bits>(quantized, n, code.block, index);
  const auto count = static_cast<unsigned>(range_of_block(n, code.block, index).size());
  const typename Code::Decoder decoder(*reinterpret_cast<const std::uint32_t*>(from.scales));
  add_term(first, sum, [&](unsigned c) {
    return values_of<Code>(load_codes<Code::bits>(from.codes, S::first(c), count), decoder.unit(S::template part<Code>(c)));
  });
}

/// The sum of the terms over a block: the first term, to which the others are added in their order.
template <class S, class Code>
__device__ Own<S> sum_of_terms(const Code& code, std::size_t n, const Terms& terms, std::size_t index) {
  using Form = Terms::Form;
  const Range range = range_of_block(n, code.block, index);
  Own<S> sum;
  terms.each([&](Form form, const std::byte* at, bool first) {
    switch (form) {
      case Form::f32: add_values<S, float>(at, range, first, sum); break;
      case Form::bf16: add_values<S, bf16>(at, range, first, sum); break;
      case Form::f16: add_values<S, f16>(at, range, first, sum); break;
      case Form::int8: add_codes(code.template with<8>(), n, at, index, first, sum); break;
      case Form::int4: add_codes(code.template with<4>(), n, at, index, first, sum); break;
    }
  });
  return sum;
}

/// The scales of a block.
template <class S, class Code>
__device__ typename Code::Encoder encoder_of(const Own<S>& sum) {
  std::uint32_t extrema[Code::parts] = {}, largest = 0;
  each_chunk<S>([&](unsigned c) {
    std::uint32_t extremum = 0;
#pragma unroll
    for (unsigned i = 0; i < own; ++i) extremum = max(extremum, rules::turned(sum.at[c].at[i]));
    extrema[S::template part<Code>(c)] = max(extrema[S::template part<Code>(c)], extremum);
  });
#pragma unroll
  for (unsigned p = 0; p < Code::parts; ++p) {
    extrema[p] = S::largest(extrema[p]);
    largest = max(largest, extrema[p]);
  }
  return typename Code::Encoder(extrema, largest);
}

template <class S, class Code>
__global__ void quantize_blocks(const Code code, std::size_t n, const Terms terms, float* residual, std::byte* out) {
  const std::size_t index = S::index();
  if (index >= blocks_in(n, code.block)) return;
  const Range range = range_of_block(n, code.block, index);
  const auto count = static_cast<unsigned>(range.size());
  float* const kept = residual == nullptr ? nullptr : residual + range.begin;
  Own<S> sum = sum_of_terms<S>(code, n, terms, index);
  if (kept != nullptr) add_term(false, sum, [&](unsigned c) { return load_some(kept, S::first(c), count); });

  const auto encoder = encoder_of<S, Code>(sum);
  const bool finite = !encoder.overflowed();
  const std::uint32_t word = encoder.word();
  const typename Code::Decoder decoder(word);
  const auto to = block_of<Code::bits>(out, n, code.block, index);
  if (threadIdx.x % S::lanes == 0) *reinterpret_cast<std::uint32_t*>(to.scales) = word;
  each_chunk<S>([&](unsigned c) {
    const unsigned first = S::first(c), part = S::template part<Code>(c);
    const float per_unit = encoder.per_unit(part);
    EightCodes<Code::bits> codes;
#pragma unroll
    for (unsigned i = 0; i < own; ++i) {
      const float k = finite ? Code::code(sum.at[c].at[i] * per_unit) : 0.0F;
      codes.set(i, rules::nearest_code<Code::bits>(k));
    }
    store_codes<Code::bits>(codes, to.codes, first, count);
    if (kept == nullptr || !finite) return;
    const Eight sent = values_of<Code>(codes, decoder.unit(part));
    Eight lost;
#pragma unroll
    for (unsigned i = 0; i < own; ++i) lost.at[i] = sum.at[c].at[i] - sent.at[i];
    store_some(lost, kept, first, count);
  });
}

template <class S, class Code, typename T>
__global__ void dequantize_blocks(const Code code, std::size_t n, const Terms terms, T* y) {
  const std::size_t index = S::index();
  if (index >= blocks_in(n, code.block)) return;
  const Range range = range_of_block(n, code.block, index);
  const auto count = static_cast<unsigned>(range.size());
  const Own<S> sum = sum_of_terms<S>(code, n, terms, index);
  each_chunk<S>([&](unsigned c) { store_some(sum.at[c], y + range.begin, S::first(c), count); });
}

bool aligned_to(std::size_t bytes, const void* at) { return reinterpret_cast<std::uintptr_t>(at) % bytes == 0; }

/// Whether threads can read the terms, and read or write `elements`, eight at a time.
bool all_aligned(Span<const QuantTerm> terms, const void* elements) {
  bool all = aligned_to(sizeof(uint4), elements);
  for (const QuantTerm& term : terms) {
    all = all && (term.values == nullptr ? aligned_to(sizeof(std::uint32_t), term.quantized)
                                         : aligned_to(sizeof(uint4), term.values));
  }
  return all;
}

/// Calls f(Shared) for blocks of a length that threads can share; otherwise returns false.
template <class F>
bool with_shared(std::size_t block, const F& f) {
  switch (block) {
    case 256: f(Shared<8, 4>()); return true;
    case 512: f(Shared<16, 4>()); return true;
    case 1024: f(Shared<32, 4>()); return true;
    case 2048: f(Shared<32, 8>()); return true;
    default: return false;
  }
}

/// Calls start(blocks, stream), which starts a kernel on all blocks of n elements; a block of threads has several.
template <class S, class Start>
void launch(const char* label, std::size_t n, const Start& start) {
  const std::size_t blocks = parts(blocks_in(n, S::block), threads / S::lanes);
  if (blocks == 0) return;
  require_countable(label, blocks);
  {
    const device::Timed timed(label);
    start(static_cast<unsigned>(blocks), portable::detail::stream());
  }
  portable::detail::launched(label);
}

template <class Code>
bool quantize_by_threads(const Code& code, std::size_t n, const Terms& terms, float* residual, std::byte* out) {
  return with_shared(code.block, [&]<class S>(S) {
    launch<S>("quantize", n, [&](unsigned blocks, cudaStream_t stream) {
      quantize_blocks<S><<<blocks, threads, 0, stream>>>(code, n, terms, residual, out);
    });
  });
}

template <class Code, typename T>
bool dequantize_by_threads(const Code& code, std::size_t n, const Terms& terms, T* y) {
  return with_shared(code.block, [&]<class S>(S) {
    launch<S>("dequantize", n, [&](unsigned blocks, cudaStream_t stream) {
      dequantize_blocks<S><<<blocks, threads, 0, stream>>>(code, n, terms, y);
    });
  });
}

}  // namespace

void quantize(const QuantFormat& format, std::size_t n, Span<const QuantTerm> terms, float* residual, std::byte* out) {
  check_quantization(format, terms);
  const bool wide = all_aligned(terms, residual) && aligned_to(sizeof(std::uint32_t), out);
  with_code(format, [&](const auto& code) {
    if (wide && quantize_by_threads(code, n, Terms(terms), residual, out)) return;
    quantize_as(code, n, Terms(terms), residual, out);
  });
}

void dequantize(const QuantFormat& format, std::size_t n, Span<const QuantTerm> terms, DType type, void* y) {
  check_quantization(format, terms);
  const bool wide = all_aligned(terms, y);
  with_rounding(format, [&](const auto& code) {
    dispatch(type, [&]<typename T>(T) {
      T* const to = static_cast<T*>(y);
      if (wide && dequantize_by_threads(code, n, Terms(terms), to)) return;
      dequantize_as(code, n, Terms(terms), to);
    });
  });
}

}  // namespace shoal::kernels
