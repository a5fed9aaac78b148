// SPDX-License-Identifier: Apache-2.0
// Measures quantization, which is for slow links: CPU time on one thread for the parameters of W1 (10.8 million), and bytes
// read and written per second, to be compared with the copy of buffers_bench.
#include <string>

#include "bench.hpp"
#include "shoal/kernels/quantize.hpp"

namespace {

using namespace shoal;
using namespace shoal::bench;
using namespace shoal::kernels;

constexpr std::size_t n = 10'800'000;

template <typename T>
void to_codes(benchmark::State& state, QuantFormat format) {
  Arena arena;
  const Span<T> x = arena.values<T>(n);
  const Span<std::byte> codes = arena.zeros<std::byte>(quantized_bytes(n, format));
  run(state, x.size_bytes() + codes.size(), [&] { quantize(format, dtype_of<T>, n, x.data(), codes.data()); });
}

template <typename T>
void to_numbers(benchmark::State& state, QuantFormat format) {
  Arena arena;
  const Span<T> x = arena.values<T>(n);
  const Span<std::byte> codes = arena.zeros<std::byte>(quantized_bytes(n, format));
  quantize(format, dtype_of<T>, n, x.data(), codes.data());
  run(state, x.size_bytes() + codes.size(), [&] { dequantize(format, dtype_of<T>, n, codes.data(), x.data()); });
}

/// Adds the codes from another rank to this rank's numbers, and quantizes the sum.
void to_codes_of_sum(benchmark::State& state, QuantFormat format) {
  Arena arena;
  const Span<float> x = arena.values(n);
  const Span<std::byte> arrived = arena.zeros<std::byte>(quantized_bytes(n, format));
  const Span<std::byte> codes = arena.zeros<std::byte>(arrived.size());
  quantize(format, DType::f32, n, x.data(), arrived.data());
  const QuantTerm terms[] = {QuantTerm::of(DType::f32, x.data()), QuantTerm::codes(format.bits, arrived.data())};
  run(state, x.size_bytes() + 2 * codes.size(), [&] { quantize(format, n, terms, nullptr, codes.data()); });
}

/// With error feedback: reads and writes the residual.
void to_codes_and_residual(benchmark::State& state, QuantFormat format) {
  Arena arena;
  const Span<float> x = arena.values(n), residual = arena.zeros<float>(n);
  const Span<std::byte> codes = arena.zeros<std::byte>(quantized_bytes(n, format));
  const QuantTerm term = QuantTerm::of(DType::f32, x.data());
  run(state, 3 * x.size_bytes() + codes.size(), [&] { quantize(format, n, {&term, 1}, residual.data(), codes.data()); });
}

/// Adds the numbers of another rank's codes to this rank's numbers.
void numbers_added(benchmark::State& state, QuantFormat format) {
  Arena arena;
  const Span<float> x = arena.values(n);
  const Span<std::byte> codes = arena.zeros<std::byte>(quantized_bytes(n, format));
  quantize(format, DType::f32, n, x.data(), codes.data());
  run(state, 2 * x.size_bytes() + codes.size(), [&] { dequantize_add(format, n, codes.data(), x.data()); });
}

void error(benchmark::State& state, QuantFormat format) {
  Arena arena;
  const Span<bf16> x = arena.values<bf16>(n);
  const Span<std::byte> codes = arena.zeros<std::byte>(quantized_bytes(n, format));
  const Span<QuantError> parts = arena.zeros<QuantError>(quant_error_parts);
  quantize(format, DType::bf16, n, x.data(), codes.data());
  run(state, x.size_bytes() + codes.size(),
      [&] { add_quantization_error(format, DType::bf16, n, x.data(), codes.data(), parts.data()); });
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
        named("quantize_residual", to_codes_and_residual);
        named("dequantize_add", numbers_added);
        named("quantization_error", error);
      }
    }
  }
  return run_registered(argc, argv);
}
