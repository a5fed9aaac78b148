// SPDX-License-Identifier: Apache-2.0
// Measures the kernels on flat buffers, whose elements have no shape: optimizers, the updates of nodes that train locally,
// sums and copies. CPU time on one thread, and bytes that the kernel must read or write per second, to be compared with
// those of the copy. The buffers are W1's 10.8 million parameters.
#include <functional>
#include <string>
#include <tuple>

#include "bench.hpp"
#include "shoal/base/names.hpp"
#include "shoal/kernels/bytes.hpp"
#include "shoal/kernels/difference.hpp"
#include "shoal/kernels/optimizer.hpp"
#include "shoal/kernels/outer.hpp"
#include "shoal/kernels/pointwise.hpp"
#include "shoal/kernels/reduce.hpp"
#include "shoal/kernels/sample.hpp"

namespace {

using namespace shoal;
using namespace shoal::bench;
using namespace shoal::kernels;

constexpr std::size_t n = 10'800'000, granules = (n + granule - 1) / granule;

void named(const std::string& name, const std::function<void(benchmark::State&)>& pass) {
  benchmark::RegisterBenchmark(name.c_str(), pass)->Unit(benchmark::kMicrosecond);
}

/// A kernel on arrays of n numbers of these types, of which it reads and writes `bytes` for each of the n.
template <typename... Elements, class Pass>
void on_arrays(const std::string& name, std::size_t bytes, const Pass& pass) {
  named(name, [=](benchmark::State& state) {
    Arena arena;
    const std::tuple<Elements*...> arrays{arena.values<Elements>(n).data()...};
    run(state, n * bytes, [&] { std::apply(pass, arrays); });
  });
}

void adamw_update(benchmark::State& state, bool rounded) {
  Arena arena;
  const AdamWStep step{1e-3, 0.9, 0.95, 1e-8, 0.1, 0.1, 0.05, 1.0};
  const auto gradient = arena.values(n), master = arena.values(n), first = arena.values(n), second = arena.values(n);
  fill(n, 0.01F, second.data());  // second moments are not negative
  const auto copy = arena.values<bf16>(rounded ? n : 0);
  run(state, n * (rounded ? 30 : 28), [&] {
    adamw(n, step, gradient.data(), {.master = master.data(), .first = first.data(), .second = second.data()},
          {.type = rounded ? DType::bf16 : DType::f32, .data = copy.data()});
  });
}

constexpr SgdStep sgd_step{.learning_rate = 1e-3F,
                           .momentum = 0.9F,
                           .weight_decay = 0.1F,
                           .nesterov = true,
                           .first_step = false,
                           .gradient_scale = 1.0F};

void register_optimizers() {
  named("fp32/adamw", [](benchmark::State& state) { adamw_update(state, false); });
  named("bf16/adamw", [](benchmark::State& state) { adamw_update(state, true); });
  on_arrays<float, float, float>("fp32/sgd", 20, [](const float* gradient, float* master, float* buffer) {
    sgd(n, sgd_step, gradient, {.master = master, .buffer = buffer}, {});
  });
  on_arrays<float, float, float, bf16>("bf16/sgd", 22, [](const float* gradient, float* master, float* buffer, bf16* copy) {
    sgd(n, sgd_step, gradient, {.master = master, .buffer = buffer}, {.type = DType::bf16, .data = copy});
  });
}

/// With these factors no value tends to zero, however often a kernel is repeated: processors take longer for numbers below
/// 1e-38.
constexpr OuterStep outer_step{.momentum = 1.0F, .rate = 0.7F, .inner_rate = 1e-3F};

void register_outer() {
  on_arrays<float>("divide", 8, [](auto* x) { divide(n, 1.0F, x); });
  on_arrays<float, float>("average_with", 12, [](auto*... a) { average_with(n, a...); });
  on_arrays<float, float, float>("average_with_stale", 16, [](auto*... a) { average_with_stale(n, a...); });
  on_arrays<float, float, float>("rebase", 16, [](auto*... a) { rebase(n, a...); });
  on_arrays<float, float>("swap", 16, [](auto*... a) { kernels::swap(n, a...); });
  on_arrays<float, float, float>("slow_momentum", 24, [](auto*... a) { slow_momentum(n, outer_step, a...); });
  on_arrays<float, float, float>("outer_nesterov", 24, [](auto*... a) { outer_nesterov(n, outer_step, a...); });
  on_arrays<float, float, float>("fp32/subtract", 12, [](auto*... a) { subtract(DType::f32, n, a...); });
  on_arrays<float, float, bf16>("bf16/subtract", 10, [](auto*... a) { subtract(DType::bf16, n, a...); });
  on_arrays<float, float, float>("fp32/add_to_base", 12, [](auto* base, auto* difference, auto* x) {
    add_to_base(DType::f32, n, base, difference, 2.0F, x);
  });
  on_arrays<float, bf16, float>("bf16/add_to_base", 10, [](auto* base, auto* difference, auto* x) {
    add_to_base(DType::bf16, n, base, difference, 2.0F, x);
  });
}

template <typename T>
void squares(benchmark::State& state) {
  Arena arena;
  const auto x = arena.values<T>(n);
  const auto sums = arena.zeros<double>(granules);
  run(state, x.size_bytes(), [&] { sum_of_squares_by_granule<T>(n, x.data(), sums.data()); });
}

template <typename T>
void register_type() {
  const std::string type = std::string(name_of(dtype_of<T>)) + "/";
  on_arrays<T, T>(type + "add", 3 * sizeof(T), [](auto*... a) { add<T>(n, a...); });
  named(type + "sum_of_squares", squares<T>);
  if constexpr (sizeof(T) < sizeof(float)) {
    on_arrays<float, T>(type + "narrow", sizeof(float) + sizeof(T), [](auto*... a) { convert<float, T>(n, a...); });
    on_arrays<T, float>(type + "widen", sizeof(float) + sizeof(T), [](auto*... a) { convert<T, float>(n, a...); });
  }
}

/// The losses of a micro-batch.
void sum_of_losses(benchmark::State& state) {
  Arena arena;
  const auto losses = arena.values(2048);
  double total = 0.0;
  run(state, losses.size_bytes(), [&] { sum(losses.size(), losses.data(), &total); });
}

/// The sums of all granules. They are zeros, because each pass overwrites them with larger numbers otherwise.
void sum_of_granules(benchmark::State& state) {
  Arena arena;
  const auto values = arena.zeros<double>(granules);
  const Subtrees whole{.count = 1, .begin = {0, granules}};
  double total = 0.0;
  run(state, values.size_bytes(), [&] { sum_subtrees(whole, values.data(), &total); });
}

constexpr Sample sample{.elements = n, .updates = 1, .slots = granules, .offset = 0, .stride = granules};
/// A granule's sampled element is in a line of the cache of its own.
constexpr std::size_t line = 64;

void draw(benchmark::State& state) {
  Arena arena;
  const auto values = arena.values(n), drawn = arena.values(granules);
  run(state, granules * (line + sizeof(float)), [&] { draw_sample(sample, {0, n}, values.data(), drawn.data()); });
}

void weigh(benchmark::State& state) {
  Arena arena;
  const auto weights = arena.values(granules);
  fill(granules, 0.01F, weights.data());
  double mean = 0.0;
  run(state, 3 * weights.size_bytes(), [&] { weigh_sample(sample, 0.1, 1e-8, &mean, weights.data()); });
}

template <typename T>
void weighted(benchmark::State& state) {
  Arena arena;
  const auto weights = arena.values(granules);
  const auto values = arena.values<T>(n);
  const auto squares = arena.zeros<double>(granules);
  run(state, granules * (line + sizeof(float) + sizeof(double)),
      [&] { weighted_squares(sample, weights.data(), 0, granules, dtype_of<T>, values.data(), squares.data()); });
}

}  // namespace

int main(int argc, char** argv) {
  const Runtime runtime(1);
  register_optimizers();
  register_outer();
  register_type<float>();
  register_type<bf16>();
  register_type<f16>();
  named("sum", sum_of_losses);
  named("sum_subtrees", sum_of_granules);
  named("draw_sample", draw);
  named("weigh_sample", weigh);
  named("fp32/weighted_squares", weighted<float>);
  named("bf16/weighted_squares", weighted<bf16>);
  on_arrays<float>("fill", sizeof(float), [](auto* x) { fill(n, 1.0F, x); });
  on_arrays<float, float>("copy", 2 * sizeof(float), [](auto*... a) { copy_bytes(n * sizeof(float), a...); });
  return run_registered(argc, argv);
}
