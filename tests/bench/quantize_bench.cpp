// SPDX-License-Identifier: Apache-2.0
// Measures quantization, which is for slow links: CPU time on one thread for the parameters of W1 (10.8 million), and bytes
// read and written per second, to be compared with the copy of elementwise_bench.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>

#include "shoal/base/memory.hpp"
#include "shoal/kernels/quantize.hpp"
#include "shoal/kernels/runtime.hpp"

namespace {

using namespace shoal;
using namespace shoal::kernels;

constexpr std::size_t n = 10'800'000;

/// Memory in huge pages, as in a run.
class Arena {
 public:
  template <typename T>
  Span<T> values() {
    const Span<T> x = memory_.take<T>(Kind::buffers, n, "values");
    for (std::size_t i = 0; i < n; ++i) x[i] = T(static_cast<float>(i * 7919 % 4001) / 1000.0F - 2.0F);
    return x;
  }
  Span<std::byte> codes(const QuantFormat& format) {
    const std::size_t bytes = quantized_bytes(n, format);
    const Span<std::byte> codes = memory_.take<std::byte>(Kind::buffers, bytes, "codes");
    std::fill(codes.begin(), codes.end(), std::byte{0});
    return codes;
  }

 private:
  static Ledger capacity() {
    Ledger bytes;
    bytes[Kind::buffers] = 4 * n * sizeof(float);
    return bytes;
  }
  Memory memory_{capacity()};
};

void count_bytes(benchmark::State& state, std::size_t bytes) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(bytes));
}

template <typename T>
void to_codes(benchmark::State& state, QuantFormat format) {
  Arena arena;
  const Span<T> x = arena.values<T>();
  const Span<std::byte> codes = arena.codes(format);
  for ([[maybe_unused]] auto _ : state) quantize(format, dtype_of<T>, n, x.data(), codes.data());
  count_bytes(state, n * sizeof(T) + codes.size());
}

template <typename T>
void to_numbers(benchmark::State& state, QuantFormat format) {
  Arena arena;
  const Span<T> x = arena.values<T>();
  const Span<std::byte> codes = arena.codes(format);
  quantize(format, dtype_of<T>, n, x.data(), codes.data());
  for ([[maybe_unused]] auto _ : state) dequantize(format, dtype_of<T>, n, codes.data(), x.data());
  count_bytes(state, n * sizeof(T) + codes.size());
}

/// Adds the codes from another rank to this rank's numbers, and quantizes the sum.
void to_codes_of_sum(benchmark::State& state, QuantFormat format) {
  Arena arena;
  const Span<float> x = arena.values<float>();
  const Span<std::byte> arrived = arena.codes(format), codes = arena.codes(format);
  quantize(format, DType::f32, n, x.data(), arrived.data());
  const QuantTerm terms[] = {QuantTerm::of(DType::f32, x.data()), QuantTerm::codes(format.bits, arrived.data())};
  for ([[maybe_unused]] auto _ : state) quantize(format, n, terms, nullptr, codes.data());
  count_bytes(state, n * sizeof(float) + 2 * codes.size());
}

}  // namespace

int main(int argc, char** argv) {
  const Runtime runtime(1);
  for (const QuantRounding rounding : {QuantRounding::accurate, QuantRounding::deepspeed}) {
    for (const int bits : {8, 4}) {
      for (const std::size_t block : {64U, 256U}) {
        const QuantFormat format{bits, block, rounding};
        const std::string name = std::string(rounding == QuantRounding::accurate ? "accurate" : "deepspeed") + "/int" +
                                 std::to_string(bits) + "/" + std::to_string(block) + "/";
        const auto named = [&](const char* what, void (*pass)(benchmark::State&, QuantFormat)) {
          benchmark::RegisterBenchmark((name + what).c_str(), pass, format)->Unit(benchmark::kMicrosecond);
        };
        named("quantize_fp32", to_codes<float>);
        named("quantize_bf16", to_codes<bf16>);
        named("dequantize_fp32", to_numbers<float>);
        named("dequantize_bf16", to_numbers<bf16>);
        named("quantize_sum", to_codes_of_sum);
      }
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
