// SPDX-License-Identifier: Apache-2.0
// Measures the kernels between the matrix products: CPU time on one thread, and bytes per second, to be compared with those
// of the copy. Bytes are those that the kernel must read or write; what a cache fetches before it is overwritten does not
// count. The sizes are those of W1 (8 sequences of 256, width 384, 65 symbols, 10.8 million parameters), and of GPT-2's
// head.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/base/names.hpp"
#include "shoal/kernels/cross_entropy.hpp"
#include "shoal/kernels/dropout.hpp"
#include "shoal/kernels/embedding.hpp"
#include "shoal/kernels/layernorm.hpp"
#include "shoal/kernels/optimizer.hpp"
#include "shoal/kernels/pointwise.hpp"
#include "shoal/kernels/reduce.hpp"
#include "shoal/kernels/runtime.hpp"

namespace {

using namespace shoal;
using namespace shoal::kernels;

constexpr std::size_t samples = 8, length = 256, rows = samples * length, width = 384, hidden = 4 * width;
constexpr std::size_t parameters = 10'800'000;

/// Memory in huge pages, as in a run. With small pages a kernel that reads several arrays takes up to 50 % longer.
class Arena {
 public:
  template <typename T = float>
  Span<T> values(std::size_t count) {
    const Span<T> v = memory_.take<T>(Kind::buffers, count, "values");
    for (std::size_t i = 0; i < count; ++i) v[i] = T(static_cast<float>(i % 4001) / 1000.0F - 2.0F);
    return v;
  }

 private:
  static Ledger capacity() {
    Ledger bytes;
    bytes[Kind::buffers] = std::size_t{1} << 30U;  // the system provides only pages that are touched
    return bytes;
  }
  Memory memory_{capacity()};
};

template <class Pass>
void run(benchmark::State& state, std::size_t bytes, const Pass& pass) {
  for ([[maybe_unused]] auto _ : state) {
    pass();
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(bytes));
}

template <typename T>
void layernorm(benchmark::State& state) {
  Arena arena;
  const auto x = arena.values<T>(rows * width), gain = arena.values<T>(width), bias = arena.values<T>(width);
  const auto y = arena.values<T>(x.size());
  std::vector<float> mean(rows), rstd(rows);
  run(state, 2 * x.size() * sizeof(T), [&] {
    layernorm_forward<T>({rows, width}, 1e-5F, {.x = x.data(), .gain = gain.data(), .bias = bias.data()},
                         {.y = y.data(), .mean = mean.data(), .rstd = rstd.data()});
  });
}

template <typename T>
void layernorm_gradient(benchmark::State& state) {
  Arena arena;
  const auto x = arena.values<T>(rows * width), dy = arena.values<T>(rows * width), residual = arena.values<T>(rows * width),
             gain = arena.values<T>(width);
  const auto dx = arena.values<T>(x.size());
  const auto mean = arena.values(rows), rstd = arena.values(rows);
  std::vector<float> dgain(width), dbias(width);
  std::vector<std::byte> workspace(layernorm_workspace_bytes({rows, width}));
  run(state, 4 * x.size() * sizeof(T), [&] {
    layernorm_backward<T>({rows, width},
                          {.x = x.data(),
                           .gain = gain.data(),
                           .mean = mean.data(),
                           .rstd = rstd.data(),
                           .dy = dy.data(),
                           .residual_gradient = residual.data()},
                          {.dx = dx.data(), .dgain = dgain.data(), .dbias = dbias.data()}, workspace);
  });
}

template <typename T>
void gelu(benchmark::State& state) {
  Arena arena;
  const auto u = arena.values<T>(rows * hidden);
  const auto g = arena.values<T>(u.size());
  run(state, 2 * u.size() * sizeof(T), [&] { gelu_forward(u.size(), u.data(), g.data()); });
}

template <typename T>
void gelu_gradient(benchmark::State& state) {
  Arena arena;
  const auto u = arena.values<T>(rows * hidden), dg = arena.values<T>(rows * hidden);
  const auto g = arena.values<T>(u.size()), du = arena.values<T>(u.size());
  std::vector<float> dbias(hidden);
  std::vector<std::byte> workspace(column_sum_workspace_bytes({rows, hidden}));
  run(state, 4 * u.size() * sizeof(T), [&] {
    gelu_backward<T>({rows, hidden}, {.u = u.data(), .dg = dg.data()},
                     {.g = g.data(), .du = du.data(), .dbias = dbias.data()}, workspace);
  });
}

template <typename T>
void bias_gradient(benchmark::State& state) {
  Arena arena;
  const auto x = arena.values<T>(rows * hidden);
  std::vector<float> sums(hidden);
  std::vector<std::byte> workspace(column_sum_workspace_bytes({rows, hidden}));
  run(state, x.size() * sizeof(T), [&] { column_sum<T>({rows, hidden}, x.data(), sums.data(), workspace); });
}

template <typename T>
void dropped_residual(benchmark::State& state) {
  Arena arena;
  const auto x = arena.values<T>(rows * width), residual = arena.values<T>(rows * width);
  const auto y = arena.values<T>(x.size());
  const Dropout dropout{0.1F, 1, 1, 0, 0};
  run(state, 3 * x.size() * sizeof(T),
      [&] { dropout_add(dropout, samples, length * width, x.data(), residual.data(), y.data()); });
}

template <typename T>
void embedding_gradient(benchmark::State& state) {
  Arena arena;
  constexpr std::size_t symbols = 65;
  const auto dx = arena.values<T>(rows * width);
  std::vector<std::int32_t> tokens(rows);
  for (std::size_t i = 0; i < rows; ++i) tokens[i] = static_cast<std::int32_t>(i * 7 % symbols);
  std::vector<float> dwte(symbols * width), dwpe(length * width);
  run(state, dx.size() * sizeof(T), [&] {
    embedding_backward<T>({samples, length, width}, tokens.data(), dx.data(),
                          {.token = dwte.data(), .position = dwpe.data()});
  });
}

template <typename T>
void loss(benchmark::State& state) {
  Arena arena;
  const auto V = static_cast<std::size_t>(state.range(0)), n = static_cast<std::size_t>(state.range(1));
  const auto logits = arena.values(n * V);
  const std::vector<std::int32_t> targets(n, 3);
  const auto losses = arena.values(n);
  const auto gradient = arena.values<T>(n * V);
  run(state, n * V * (sizeof(float) + sizeof(T)), [&] {
    cross_entropy<T>({n, V}, {.logits = logits.data(), .targets = targets.data(), .stride = V}, 1e-3F,
                     {.losses = losses.data(), .dlogits = gradient.data()});
  });
}

void adamw_update(benchmark::State& state, bool rounded) {
  Arena arena;
  const AdamWStep step{1e-3, 0.9, 0.95, 1e-8, 0.1, 0.1, 0.05, 1.0};
  const auto gradient = arena.values(parameters), master = arena.values(parameters), first = arena.values(parameters),
             second = arena.values(parameters);
  fill(parameters, 0.01F, second.data());  // second moments are not negative
  const auto copy = arena.values<bf16>(rounded ? parameters : 0);
  run(state, parameters * (rounded ? 30 : 28), [&] {
    adamw(parameters, step, gradient.data(), {.master = master.data(), .first = first.data(), .second = second.data()},
          {.type = rounded ? DType::bf16 : DType::f32, .data = copy.data()});
  });
}

void gradient_norm(benchmark::State& state) {
  Arena arena;
  const auto x = arena.values(parameters);
  std::vector<double> sums(parameters / granule + 1);
  run(state, parameters * sizeof(float), [&] { sum_of_squares_by_granule(parameters, x.data(), sums.data()); });
}

void accumulate(benchmark::State& state) {
  Arena arena;
  const auto from = arena.values(parameters);
  const auto into = arena.values(parameters);
  run(state, 3 * parameters * sizeof(float), [&] { add(parameters, from.data(), into.data()); });
}

void copy(benchmark::State& state) {
  Arena arena;
  const auto from = arena.values(parameters);
  const auto to = arena.values(parameters);
  run(state, 2 * parameters * sizeof(float), [&] { copy_bytes(parameters * sizeof(float), from.data(), to.data()); });
}

template <typename T>
void register_type() {
  const std::string type = name_of(dtype_of<T>);
  const auto named = [&](const char* name, void (*pass)(benchmark::State&)) {
    return benchmark::RegisterBenchmark((type + "/" + name).c_str(), pass)->Unit(benchmark::kMicrosecond);
  };
  named("layernorm_forward", layernorm<T>);
  named("layernorm_backward", layernorm_gradient<T>);
  named("gelu_forward", gelu<T>);
  named("gelu_backward", gelu_gradient<T>);
  named("column_sum", bias_gradient<T>);
  named("dropout_add", dropped_residual<T>);
  named("embedding_backward", embedding_gradient<T>);
  named("cross_entropy", loss<T>)->Args({65, 2048})->Args({50304, 256});
}

}  // namespace

int main(int argc, char** argv) {
  const Runtime runtime(1);
  register_type<float>();
  register_type<bf16>();
  register_type<f16>();
  benchmark::RegisterBenchmark("fp32/adamw", adamw_update, false)->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark("bf16/adamw", adamw_update, true)->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark("sum_of_squares", gradient_norm)->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark("add", accumulate)->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark("copy", copy)->Unit(benchmark::kMicrosecond);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
