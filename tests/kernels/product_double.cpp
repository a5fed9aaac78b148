// SPDX-License-Identifier: Apache-2.0
#include "kernels/product_double.hpp"

#include <cstring>

#include "kernels/cuda/add_bias.hpp"
#include "kernels/rules/gelu.hpp"
#include "shoal/base/error.hpp"

namespace shoal::kernels {

namespace test {

ProductDouble& product_double() {
  static ProductDouble the_double;
  return the_double;
}

}  // namespace test

namespace cuda {

namespace {

using test::product_double;

template <typename T, typename R>
void compute(const MatmulShape& s, const ProductOperands& operands) {
  const auto* const a = static_cast<const T*>(operands.a);
  const auto* const b = static_cast<const T*>(operands.b);
  const auto* const bias = static_cast<const T*>(operands.bias);
  const auto* const added = static_cast<const R*>(operands.added);
  auto* const c = static_cast<R*>(operands.c);
  auto* const u = static_cast<R*>(operands.u);
  const std::size_t a_row = s.transpose_a == Transpose::yes ? 1 : s.a_stride, a_term = s.a_stride + 1 - a_row;
  const std::size_t b_column = s.transpose_b == Transpose::yes ? s.b_stride : 1, b_term = s.b_stride + 1 - b_column;
  for (std::size_t i = 0; i < s.m; ++i) {
    for (std::size_t j = 0; j < s.n; ++j) {
      float sum = 0.0F;
      for (std::size_t k = 0; k < s.k; ++k) {
        sum += static_cast<float>(a[i * a_row + k * a_term]) * static_cast<float>(b[k * b_term + j * b_column]);
      }
      if (bias != nullptr) sum += static_cast<float>(bias[j]);
      if (s.activation == Activation::gelu) {
        u[i * s.c_stride + j] = R(sum);
        sum *= rules::gelu_gate<float>(sum).open;
      } else if (s.activation == Activation::gelu_backward) {
        const float at = u[i * s.c_stride + j];
        const auto gate = rules::gelu_gate<float>(at);
        sum *= rules::gelu_slope<float>(at, at * gate.open, gate);
      }
      if (added != nullptr) sum += static_cast<float>(added[i * s.c_stride + j]);
      c[i * s.c_stride + j] = R(sum);
    }
  }
}

class DoubledProduct : public LibraryProduct {
 public:
  explicit DoubledProduct(const Product& product) : product_(product) {}

  std::string choose(Algorithm& algorithm) override {
    product_double().chosen.push_back(product_);
    std::memcpy(algorithm.bytes.data(), &product_double().choice, sizeof product_double().choice);
    return product_double().no_algorithm;
  }
  std::string problem(const Algorithm& /*algorithm*/) override {
    product_double().checked.push_back(product_);
    return product_double().cannot_run;
  }
  void run(const char* label, const Algorithm& algorithm, const ProductOperands& operands, std::byte* workspace) override {
    test::ProductDouble::Run run{label, product_, 0, operands, workspace};
    std::memcpy(&run.choice, algorithm.bytes.data(), sizeof run.choice);
    product_double().runs.push_back(run);
    dispatch(product_.operands, [&]<typename T>(T) {
      if (product_.result == DType::f32) {
        compute<T, float>(product_.shape, operands);
      } else {
        compute<T, T>(product_.shape, operands);
      }
    });
  }

 private:
  Product product_;
};

}  // namespace

std::unique_ptr<LibraryProduct> make_product(const Product& product, bool tf32) {
  product_double().tf32 = tf32;
  return std::make_unique<DoubledProduct>(product);
}
std::string product_library() { return product_double().version; }
std::string product_device() { return "the double"; }

template <typename T>
void add_bias(const char* /*label*/, const T* bias, Matrix<float> c) {
  for (std::size_t i = 0; i < c.rows; ++i) {
    for (std::size_t j = 0; j < c.columns; ++j) c.data[i * c.stride + j] += static_cast<float>(bias[j]);
  }
}
template void add_bias<bf16>(const char*, const bf16*, Matrix<float>);
template void add_bias<f16>(const char*, const f16*, Matrix<float>);

}  // namespace cuda

}  // namespace shoal::kernels
