// SPDX-License-Identifier: Apache-2.0
// Measures the kernels between the matrix products: CPU time on one thread, and bytes per second, to be compared with those
// of the copy in buffers_bench. Bytes are those that the kernel must read or write; what a cache fetches before it is
// overwritten does not count. The sizes are those of W1 (8 sequences of 256, width 384, 65 symbols), and of GPT-2's head.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench.hpp"
#include "shoal/base/names.hpp"
#include "shoal/kernels/cross_entropy.hpp"
#include "shoal/kernels/dropout.hpp"
#include "shoal/kernels/embedding.hpp"
#include "shoal/kernels/layernorm.hpp"
#include "shoal/kernels/pointwise.hpp"

namespace {

using namespace shoal;
using namespace shoal::bench;
using namespace shoal::kernels;

constexpr std::size_t samples = 8, length = 256, rows = samples * length, width = 384, hidden = 4 * width, symbols = 65;

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
void layernorm_again(benchmark::State& state) {
  Arena arena;
  const auto x = arena.values<T>(rows * width), gain = arena.values<T>(width), bias = arena.values<T>(width);
  const auto y = arena.values<T>(x.size());
  const auto mean = arena.values(rows), rstd = arena.values(rows);
  run(state, 2 * x.size() * sizeof(T), [&] {
    layernorm_recompute<T>({rows, width}, {.x = x.data(), .gain = gain.data(), .bias = bias.data()},
                           {.mean = mean.data(), .rstd = rstd.data()}, y.data());
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
void relu(benchmark::State& state) {
  Arena arena;
  const auto x = arena.values<T>(rows * hidden);
  run(state, 2 * x.size() * sizeof(T), [&] { relu_forward(x.size(), x.data()); });
}

template <typename T>
void relu_gradient(benchmark::State& state) {
  Arena arena;
  const auto y = arena.values<T>(rows * hidden), dy = arena.values<T>(rows * hidden);
  const auto dx = arena.values<T>(y.size());
  run(state, 3 * y.size() * sizeof(T), [&] { relu_backward(y.size(), y.data(), dy.data(), dx.data()); });
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
void dropped_gradient(benchmark::State& state) {
  Arena arena;
  const auto dy = arena.values<T>(rows * width), dx = arena.values<T>(rows * width);
  const Dropout dropout{0.1F, 1, 1, 0, 0};
  run(state, 2 * dy.size() * sizeof(T), [&] { dropout_backward(dropout, samples, length * width, dy.data(), dx.data()); });
}

std::vector<std::int32_t> some_tokens() {
  std::vector<std::int32_t> tokens(rows);
  for (std::size_t i = 0; i < rows; ++i) tokens[i] = static_cast<std::int32_t>(i * 7 % symbols);
  return tokens;
}

template <typename T>
void embedding(benchmark::State& state) {
  Arena arena;
  const auto wte = arena.values<T>(symbols * width), wpe = arena.values<T>(length * width);
  const auto x = arena.values<T>(rows * width);
  const std::vector<std::int32_t> tokens = some_tokens();
  run(state, x.size() * sizeof(T), [&] {
    embedding_forward<T>({samples, length, width}, tokens.data(), {.token = wte.data(), .position = wpe.data()}, x.data());
  });
}

template <typename T>
void embedding_gradient(benchmark::State& state) {
  Arena arena;
  const auto dx = arena.values<T>(rows * width);
  const std::vector<std::int32_t> tokens = some_tokens();
  std::vector<float> dwte(symbols * width), dwpe(length * width);
  run(state, dx.size() * sizeof(T), [&] {
    embedding_backward<T>({samples, length, width}, tokens.data(), dx.data(),
                          {.token = dwte.data(), .position = dwpe.data()});
  });
}

void loss_alone(benchmark::State& state) {
  Arena arena;
  const auto V = static_cast<std::size_t>(state.range(0)), n = static_cast<std::size_t>(state.range(1));
  const auto logits = arena.values(n * V);
  const std::vector<std::int32_t> targets(n, 3);
  const auto losses = arena.values(n);
  run(state, n * V * sizeof(float), [&] {
    cross_entropy_forward({n, V}, {.logits = logits.data(), .targets = targets.data(), .stride = V}, losses.data());
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

benchmark::internal::Benchmark* named(const std::string& name, void (*pass)(benchmark::State&)) {
  return benchmark::RegisterBenchmark(name.c_str(), pass)->Unit(benchmark::kMicrosecond);
}

void for_logits(benchmark::internal::Benchmark* of) { of->Args({symbols, rows})->Args({50304, 256}); }

template <typename T>
void register_type() {
  const std::string type = std::string(name_of(dtype_of<T>)) + "/";
  named(type + "layernorm_forward", layernorm<T>);
  named(type + "layernorm_recompute", layernorm_again<T>);
  named(type + "layernorm_backward", layernorm_gradient<T>);
  named(type + "gelu_forward", gelu<T>);
  named(type + "gelu_backward", gelu_gradient<T>);
  named(type + "relu_forward", relu<T>);
  named(type + "relu_backward", relu_gradient<T>);
  named(type + "column_sum", bias_gradient<T>);
  named(type + "dropout_add", dropped_residual<T>);
  named(type + "dropout_backward", dropped_gradient<T>);
  named(type + "embedding_forward", embedding<T>);
  named(type + "embedding_backward", embedding_gradient<T>);
  named(type + "cross_entropy", loss<T>)->Apply(for_logits);
}

}  // namespace

int main(int argc, char** argv) {
  const Runtime runtime(1);
  register_type<float>();
  register_type<bf16>();
  register_type<f16>();
  named("fp32/cross_entropy_forward", loss_alone)->Apply(for_logits);
  return run_registered(argc, argv);
}
