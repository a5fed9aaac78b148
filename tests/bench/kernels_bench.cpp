// SPDX-License-Identifier: Apache-2.0
// Measures GFLOP/s of the kernels that take most of a step, by CPU time on one thread: each matrix product of a block and of
// the head, and attention. The sizes are those of W1 (width 384, 6 heads, 8 sequences of 256), of W2 (width 768, 12 heads,
// 1024 tokens, 50304 symbols), and for attention also of W3 (sequences of 2048). Attention counts the operations of the
// lower triangle: per head of a sequence, 2 (forward) or 5 (backward) products of 2 HS T (T + 1) / 2 operations. Generation
// (decode) is attention of one position to all T.
#include <string>
#include <vector>

#include "bench.hpp"
#include "shoal/base/names.hpp"
#include "shoal/kernels/attention.hpp"
#include "shoal/kernels/matmul.hpp"

namespace {

using namespace shoal;
using namespace shoal::kernels;

template <typename T>
std::vector<T> values(std::size_t count) {
  std::vector<T> v(count);
  for (std::size_t i = 0; i < count; ++i) v[i] = T(static_cast<float>(i % 61) / 61.0F - 0.5F);
  return v;
}

void count_flops(benchmark::State& state, double flops) {
  state.counters["GFLOP/s"] = benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

template <typename T, typename R>
void product(benchmark::State& state, const MatmulShape& s) {
  const auto a = values<T>(s.m * s.k), b = values<T>(s.k * s.n);
  std::vector<R> c(s.m * s.n);
  std::vector<std::byte> workspace(matmul_workspace_bytes<T, R>(s));
  const auto stored = [](const std::vector<T>& x, std::size_t rows, std::size_t columns, Transpose transpose) {
    return transpose == Transpose::yes ? Matrix<const T>(x.data(), columns, rows) : Matrix<const T>(x.data(), rows, columns);
  };
  const MatmulInputs<T, R> in{.a = stored(a, s.m, s.k, s.transpose_a),
                              .b = stored(b, s.k, s.n, s.transpose_b),
                              .transpose_a = s.transpose_a,
                              .transpose_b = s.transpose_b,
                              .added = s.added ? c.data() : nullptr};
  for ([[maybe_unused]] auto _ : state) matmul("product", in, Matrix<R>(c.data(), s.m, s.n), workspace);
  count_flops(state, 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k));
}

/// y = x W, where x has `tokens` rows, and its two gradients.
template <typename T>
void register_layer(const std::string& name, std::size_t tokens, std::size_t in, std::size_t out) {
  const std::string type = name_of(dtype_of<T>);
  const auto add = [&](const std::string& what, auto&&... shape) {
    benchmark::RegisterBenchmark((type + "/" + name + "/" + what).c_str(), shape...)->Unit(benchmark::kMillisecond);
  };
  add("forward", [=](benchmark::State& s) { product<T, T>(s, {.m = tokens, .n = out, .k = in}); });
  add("dx", [=](benchmark::State& s) { product<T, T>(s, {.m = tokens, .n = in, .k = out, .transpose_b = Transpose::yes}); });
  add("dw",
      [=](benchmark::State& s) { product<T, float>(s, {.m = in, .n = out, .k = tokens, .transpose_a = Transpose::yes}); });
}

/// logits = h E' for a chunk of rows, E [V, C], and its two gradients.
template <typename T>
void register_head(const std::string& name, std::size_t rows, std::size_t C, std::size_t V) {
  const std::string type = name_of(dtype_of<T>);
  const auto add = [&](const std::string& what, auto&& run) {
    benchmark::RegisterBenchmark((type + "/" + name + "/" + what).c_str(), run)->Unit(benchmark::kMillisecond);
  };
  add("forward",
      [=](benchmark::State& s) { product<T, float>(s, {.m = rows, .n = V, .k = C, .transpose_b = Transpose::yes}); });
  add("dx", [=](benchmark::State& s) { product<T, T>(s, {.m = rows, .n = C, .k = V}); });
  add("dw", [=](benchmark::State& s) { product<T, float>(s, {.m = V, .n = C, .k = rows, .transpose_a = Transpose::yes}); });
  add("dw, added", [=](benchmark::State& s) {
    product<T, float>(s, {.m = V, .n = C, .k = rows, .transpose_a = Transpose::yes, .added = true});
  });
}

template <typename T>
void attention(benchmark::State& state, const AttentionShape& s, bool backward) {
  const auto qkv = values<T>(s.B * s.T * 3 * s.C), dout = values<T>(s.B * s.T * s.C);
  std::vector<T> out(s.B * s.T * s.C), dqkv(qkv.size());
  std::vector<float> logsumexp(s.B * s.NH * s.T);
  std::vector<std::byte> workspace(attention_workspace_bytes<T>(s));
  const AttentionOutputs<T> outputs{.out = out.data(), .logsumexp = logsumexp.data()};
  const AttentionBackwardInputs<T> in{
      .qkv = qkv.data(), .out = out.data(), .logsumexp = logsumexp.data(), .dout = dout.data()};
  attention_forward<T>(s, qkv.data(), outputs, {}, workspace);
  for ([[maybe_unused]] auto _ : state) {
    if (backward) {
      attention_backward<T>(s, in, dqkv.data(), {}, workspace);
    } else {
      attention_forward<T>(s, qkv.data(), outputs, {}, workspace);
    }
  }
  const auto pairs = static_cast<double>(s.B * s.NH * (s.T * (s.T + 1) / 2));
  count_flops(state, (backward ? 5.0 : 2.0) * 2.0 * static_cast<double>(s.C / s.NH) * pairs);
}

/// Attention of the last position of one sequence, whose keys and values lie as in training.
template <typename T>
void decode(benchmark::State& state, const AttentionShape& s) {
  const auto qkv = values<T>(s.T * 3 * s.C);
  std::vector<T> out(s.C);
  const KeyValueCache<T> cache{.keys = qkv.data() + s.C, .values = qkv.data() + 2 * s.C, .stride = 3 * s.C, .length = s.T};
  const T* const q = qkv.data() + (s.T - 1) * cache.stride;
  for ([[maybe_unused]] auto _ : state) attention_decode<T>(s.NH, s.C / s.NH, q, cache, out.data());
  count_flops(state, 2.0 * 2.0 * static_cast<double>(s.C * s.T));
}

template <typename T>
void register_attention(const std::string& name, const AttentionShape& s) {
  const std::string type = name_of(dtype_of<T>);
  for (const bool backward : {false, true}) {
    benchmark::RegisterBenchmark((type + "/" + name + (backward ? "/backward" : "/forward")).c_str(),
                                 [=](benchmark::State& state) { attention<T>(state, s, backward); })
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::RegisterBenchmark((type + "/" + name + "/decode").c_str(), [=](benchmark::State& state) {
    decode<T>(state, s);
  })->Unit(benchmark::kMillisecond);
}

template <typename T>
void register_all() {
  const auto block = [](const std::string& model, std::size_t tokens, std::size_t C) {
    register_layer<T>(model + "/qkv", tokens, C, 3 * C);
    register_layer<T>(model + "/attention_out", tokens, C, C);
    register_layer<T>(model + "/mlp_up", tokens, C, 4 * C);
    register_layer<T>(model + "/mlp_down", tokens, 4 * C, C);
  };
  block("W1", 2048, 384);
  block("W2", 1024, 768);
  register_head<T>("W2/head", 256, 768, 50304);
  register_attention<T>("W1/attention", {8, 256, 384, 6});
  register_attention<T>("W3/attention", {1, 2048, 768, 12});
}

}  // namespace

int main(int argc, char** argv) {
  const Runtime runtime(1);
  register_all<float>();
  register_all<bf16>();
  register_all<f16>();
  return bench::run_registered(argc, argv);
}
