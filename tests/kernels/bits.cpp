// SPDX-License-Identifier: Apache-2.0
// Prints a checksum of what each kernel computes on fixed inputs. same_bits.sh compares what this program prints with each
// implementation. Left out: matrix products and attention, whose sums are added in another order, and the GELU of bf16,
// whose reciprocal is the processor's own approximation.
#include <cstdio>
#include <string>
#include <vector>

#include "kernel_test.hpp"
#include "shoal/base/names.hpp"
#include "shoal/kernels/cross_entropy.hpp"
#include "shoal/kernels/difference.hpp"
#include "shoal/kernels/dropout.hpp"
#include "shoal/kernels/embedding.hpp"
#include "shoal/kernels/layernorm.hpp"
#include "shoal/kernels/optimizer.hpp"
#include "shoal/kernels/outer.hpp"
#include "shoal/kernels/pointwise.hpp"
#include "shoal/kernels/quantize.hpp"
#include "shoal/kernels/reduce.hpp"
#include "shoal/kernels/sample.hpp"
#include "shoal/kernels/tree_sum.hpp"
#include "support/with_device.hpp"

namespace shoal::kernels::test {
namespace {

/// Prints NAME, SIZE, and a checksum of each result (FNV-1a).
template <typename... Results>
void print(const std::string& name, std::size_t size, const Results&... results) {
  std::printf("%s %zu", name.c_str(), size);
  const auto one = [](const auto& values) {
    std::uint64_t hash = 0xcbf29ce484222325U;
    const auto* const bytes = reinterpret_cast<const unsigned char*>(values.data());
    for (std::size_t i = 0; i < values.size() * sizeof(values[0]); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3U;
    std::printf(" %016lx", static_cast<unsigned long>(hash));
  };
  (one(results), ...);
  std::printf("\n");
}

template <typename T>
std::string with_type(const char* name) {
  return std::string(name) + " " + name_of(dtype_of<T>);
}

/// A row of C gradients or logits is near zero in places, and has very large and very small numbers.
template <typename T>
std::vector<T> wide_numbers(std::size_t n, std::uint64_t stream) {
  auto values = numbers<T>(n, stream, -6.0F, 6.0F);
  for (std::size_t i = 0; i < n; i += 7) values[i] = T(static_cast<float>(values[i]) * 1e-4F);
  return values;
}

template <typename T>
void elementwise(std::size_t n) {
  const auto x = wide_numbers<T>(n, 1), y = wide_numbers<T>(n, 2);
  std::vector<T> sum = x, positive = x, slope(n), out(n);
  add(n, y.data(), sum.data());
  relu_forward(n, positive.data());
  relu_backward(n, positive.data(), y.data(), slope.data());
  print(with_type<T>("add, relu"), n, sum, positive, slope);
  if constexpr (!std::is_same_v<T, bf16>) {
    gelu_forward(n, x.data(), out.data());
    print(with_type<T>("gelu"), n, out);
  }
  if constexpr (!std::is_same_v<T, float>) {
    std::vector<float> wide(n), in_place = wide_numbers<float>(n, 3);
    std::vector<T> narrow(n);
    convert(n, x.data(), wide.data());
    convert(n, in_place.data(), narrow.data());
    convert(n, in_place.data(), reinterpret_cast<T*>(in_place.data()));
    print(with_type<T>("convert"), n, wide, narrow, in_place);
  }
  std::vector<T> tree(n);
  tree_sum(dtype_of<T>, n, {.count = 3, .at = {x.data(), y.data(), slope.data()}}, tree.data());
  print(with_type<T>("tree sum"), n, tree);
  std::vector<double> squares((n + granule - 1) / granule);
  sum_of_squares_by_granule(n, x.data(), squares.data());
  print(with_type<T>("sum of squares"), n, squares);
  const Dropout dropout{.probability = 0.3F, .key = 99, .step = 4, .first_sample = 3, .site = 17};
  std::vector<T> dropped(2 * n);
  const auto two = wide_numbers<T>(2 * n, 4), residual = wide_numbers<T>(2 * n, 5);
  dropout_add(dropout, 2, n, two.data(), residual.data(), dropped.data());
  print(with_type<T>("dropout"), n, dropped);
}

template <typename T>
void rows(std::size_t count, std::size_t C) {
  const RowShape shape{count, C};
  const auto x = wide_numbers<T>(count * C, 6), dy = wide_numbers<T>(count * C, 7), gain = wide_numbers<T>(C, 8),
             bias = wide_numbers<T>(C, 9);
  std::vector<T> y(count * C), again(count * C), dx(count * C);
  std::vector<float> mean(count), rstd(count), dgain(C), dbias(C), sums(C);
  layernorm_forward<T>(shape, 1e-5F, {.x = x.data(), .gain = gain.data(), .bias = bias.data()},
                       {.y = y.data(), .mean = mean.data(), .rstd = rstd.data()});
  layernorm_recompute<T>(shape, {.x = x.data(), .gain = gain.data(), .bias = bias.data()},
                         {.mean = mean.data(), .rstd = rstd.data()}, again.data());
  std::vector<std::byte> workspace(std::max(layernorm_workspace_bytes(shape), column_sum_workspace_bytes(shape)));
  layernorm_backward<T>(shape,
                        {.x = x.data(),
                         .gain = gain.data(),
                         .mean = mean.data(),
                         .rstd = rstd.data(),
                         .dy = dy.data(),
                         .residual_gradient = x.data()},
                        {.dx = dx.data(), .dgain = dgain.data(), .dbias = dbias.data()}, workspace);
  print(with_type<T>("layernorm"), C, y, again, mean, rstd, dx, dgain, dbias);
  column_sum<T>(shape, x.data(), sums.data(), workspace);
  print(with_type<T>("column sum"), C, sums);
  if constexpr (!std::is_same_v<T, bf16>) {
    std::vector<T> g(count * C), du(count * C);
    gelu_backward<T>(shape, {.u = x.data(), .dg = dy.data()}, {.g = g.data(), .du = du.data(), .dbias = dbias.data()},
                     workspace);
    print(with_type<T>("gelu backward"), C, g, du, dbias);
  }
}

template <typename T>
void tokens(std::size_t V, std::size_t C) {
  const std::size_t B = 3, T_ = 50, count = B * T_;
  std::vector<std::int32_t> ids(count);
  for (std::size_t i = 0; i < count; ++i) ids[i] = static_cast<std::int32_t>(i * i % V);
  const std::size_t stride = V + 5;
  const auto logits = wide_numbers<float>(count * stride, 10);
  std::vector<float> losses(count), evaluated(count);
  std::vector<T> dlogits(count * stride);
  cross_entropy_forward({count, V}, {.logits = logits.data(), .targets = ids.data(), .stride = stride}, evaluated.data());
  cross_entropy<T>({count, V}, {.logits = logits.data(), .targets = ids.data(), .stride = stride}, 0.25F,
                   {.losses = losses.data(), .dlogits = dlogits.data()});
  print(with_type<T>("cross entropy"), V, losses, evaluated, dlogits);
  const auto table = wide_numbers<T>(V * C, 11), positions = wide_numbers<T>(T_ * C, 12),
             dx = wide_numbers<T>(count * C, 13);
  std::vector<T> x(count * C);
  std::vector<float> dtoken = wide_numbers<float>(V * C, 14), dposition(T_ * C);
  embedding_forward<T>({B, T_, C}, ids.data(), {.token = table.data(), .position = positions.data()}, x.data());
  embedding_backward<T>({B, T_, C}, ids.data(), dx.data(), {.token = dtoken.data(), .position = dposition.data()});
  print(with_type<T>("embedding"), C, x, dtoken, dposition);
}

template <typename T>
void updates(std::size_t n) {
  auto master = wide_numbers<float>(n, 15), first = wide_numbers<float>(n, 16), second = numbers(n, 17, 0.0F, 2.0F);
  const auto gradient = wide_numbers<float>(n, 18);
  std::vector<T> rounded(n);
  adamw(n,
        {.learning_rate = 1e-3,
         .beta1 = 0.9,
         .beta2 = 0.999,
         .epsilon = 1e-8,
         .weight_decay = 0.1,
         .correction1 = 0.19,
         .correction2 = 0.002,
         .gradient_scale = 0.7},
        gradient.data(), {.master = master.data(), .first = first.data(), .second = second.data()},
        {dtype_of<T>, rounded.data()});
  print(with_type<T>("adamw"), n, master, first, second, rounded);
  for (const bool nesterov : {false, true}) {
    const SgdStep step{.learning_rate = 0.1F,
                       .momentum = 0.9F,
                       .weight_decay = 0.01F,
                       .nesterov = nesterov,
                       .first_step = false,
                       .gradient_scale = 0.5F};
    sgd(n, step, gradient.data(), {.master = master.data(), .buffer = nesterov ? first.data() : nullptr},
        {dtype_of<T>, rounded.data()});
    print(with_type<T>("sgd"), n, master, first, rounded);
  }
}

void outer(std::size_t n) {
  const auto other = wide_numbers<float>(n, 20), before = wide_numbers<float>(n, 21);
  auto x = wide_numbers<float>(n, 22), outer = wide_numbers<float>(n, 23), u = wide_numbers<float>(n, 24);
  divide(n, 3.0F, x.data());
  average_with(n, other.data(), x.data());
  average_with_stale(n, other.data(), before.data(), x.data());
  rebase(n, other.data(), before.data(), x.data());
  print("averages", n, x);
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    std::vector<std::byte> difference(n * size_of(type));
    subtract(type, n, x.data(), other.data(), difference.data());
    add_to_base(type, n, before.data(), difference.data(), 4.0F, x.data());
    print("differences", n, difference, x);
  }
  const OuterStep step{.momentum = 0.7F, .rate = 0.9F, .inner_rate = 0.01F};
  slow_momentum(n, step, outer.data(), u.data(), x.data());
  print("slow momentum", n, outer, u, x);
  x = other;
  outer_nesterov(n, step, outer.data(), u.data(), x.data());
  print("outer Nesterov", n, outer, u, x);
}

void quantization(std::size_t n) {
  for (const int bits : {8, 4}) {
    for (const std::size_t block : {std::size_t{64}, std::size_t{256}, std::size_t{1000}}) {
      for (const QuantRounding rounding : {QuantRounding::accurate, QuantRounding::deepspeed}) {
        const QuantFormat format{.bits = bits, .block = block, .rounding = rounding};
        const auto x = wide_numbers<bf16>(n, 25);
        auto residual = numbers(n, 26, -0.1F, 0.1F);
        std::vector<std::byte> first(quantized_bytes(n, format)), sum(quantized_bytes(n, format));
        std::vector<f16> y(n);
        quantize(format, DType::bf16, n, x.data(), first.data());
        const QuantTerm terms[] = {QuantTerm::codes(bits, first.data()), QuantTerm::of(DType::bf16, x.data())};
        quantize(format, n, terms, residual.data(), sum.data());
        dequantize(format, n, terms, DType::f16, y.data());
        print("quantize to " + std::to_string(bits) + " bits, block " + std::to_string(block), n, first, residual, sum, y);
        std::vector<QuantError> errors(quant_error_parts);
        add_quantization_error(format, DType::bf16, n, x.data(), first.data(), errors.data());
        print("quantization error of " + std::to_string(bits) + " bits, block " + std::to_string(block), n, errors);
      }
    }
  }
}

void sums(std::size_t n) {
  const auto x = wide_numbers<float>(100 * n, 27);
  std::vector<double> values = doubles(x), total(1), subtrees(2);
  sum(x.size(), x.data(), total.data());
  const auto first = static_cast<std::uint32_t>(n), end = static_cast<std::uint32_t>(x.size());
  sum_subtrees({.count = 2, .begin = {0, first, end}}, values.data(), subtrees.data());
  print("sums", n, total, subtrees);
}

template <typename T>
void samples(std::size_t granules) {
  const std::size_t n = granules * granule - 3;
  const Sample sample{.elements = n, .updates = 12345, .slots = granules, .offset = 0, .stride = granules};
  const auto moments = numbers<float>(n, 28, 0.0F, 1e-3F);
  const auto x = wide_numbers<T>(n, 29);
  std::vector<float> weights(granules);
  std::vector<double> mean(1), squares(granules);
  draw_sample(sample, {0, n}, moments.data(), weights.data());
  weigh_sample(sample, 0.3, 1e-8, mean.data(), weights.data());
  weighted_squares(sample, weights.data(), 0, granules, dtype_of<T>, x.data(), squares.data());
  print(with_type<T>("sample"), granules, weights, mean, squares);
}

template <typename T>
void all() {
  for (const std::size_t n : odd_sizes) elementwise<T>(n);
  for (const std::size_t n : odd_sizes) updates<T>(n);
  for (const std::size_t C : odd_sizes) rows<T>(130, C);
  for (const std::size_t C : {768, 1024, 1280, 1600, 2048}) rows<T>(130, C);  // a GPU has kernels for these widths
  for (const std::size_t C : {7, 64, 65, 1003}) tokens<T>(C, C / 2 + 1);
  for (const std::size_t granules : {1, 7, 1500}) samples<T>(granules);
}

int run() {
  const Runtime runtime(test_threads());
  all<float>();
  all<bf16>();
  all<f16>();
  for (const std::size_t n : odd_sizes) outer(n);
  for (const std::size_t n : odd_sizes) sums(n);
  for (const std::size_t n : odd_sizes) quantization(n);
  quantization(10'007);  // each part of the error is a sum over several blocks of 64
  return 0;
}

}  // namespace
}  // namespace shoal::kernels::test

int main() { return shoal::test::with_device(shoal::kernels::test::run); }
