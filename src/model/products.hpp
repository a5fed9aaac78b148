// SPDX-License-Identifier: Apache-2.0
// The matrix products of a linear layer y = x W + bias, with W stored as [in, out], their list, and their workspace.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/kernels/matmul.hpp"
#include "shoal/kernels/products.hpp"

namespace shoal::model {

/// x is [rows, in], y is [rows, out].
struct LinearShape {
  std::size_t rows, in, out;
};

template <typename T>
struct LinearInputs {
  const T *x, *weight, *bias;
  const T* added = nullptr;  ///< of y's shape; may be y
};

/// y = x W + bias [+ added].
template <typename T>
void linear(const char* label, const LinearShape& s, const LinearInputs<T>& in, T* y, Span<std::byte> workspace) {
  kernels::matmul<T, T>(label,
                        {.a = {in.x, s.rows, s.in}, .b = {in.weight, s.in, s.out}, .bias = in.bias, .added = in.added},
                        {y, s.rows, s.out}, workspace);
}

/// u = x W + bias and y = gelu(u), by the product itself.
template <typename T>
void linear_gelu(const char* label, const LinearShape& s, const LinearInputs<T>& in, T* u, T* y, Span<std::byte> workspace) {
  kernels::matmul<T, T>(label,
                        {.a = {in.x, s.rows, s.in},
                         .b = {in.weight, s.in, s.out},
                         .bias = in.bias,
                         .activation = kernels::Activation::gelu,
                         .u = u},
                        {y, s.rows, s.out}, workspace);
}

/// dx = dy W'.
template <typename T>
void linear_input_gradient(const char* label, const LinearShape& s, const T* dy, const T* weight, T* dx,
                           Span<std::byte> workspace) {
  kernels::matmul<T, T>(label,
                        {.a = {dy, s.rows, s.out}, .b = {weight, s.in, s.out}, .transpose_b = kernels::Transpose::yes},
                        {dx, s.rows, s.in}, workspace);
}

/// du = (dy W') gelu'(u), where x = gelu(u), by the product itself.
template <typename T>
void linear_gelu_gradient(const char* label, const LinearShape& s, const T* dy, const T* weight, T* u, T* du,
                          Span<std::byte> workspace) {
  kernels::matmul<T, T>(label,
                        {.a = {dy, s.rows, s.out},
                         .b = {weight, s.in, s.out},
                         .transpose_b = kernels::Transpose::yes,
                         .activation = kernels::Activation::gelu_backward,
                         .u = u},
                        {du, s.rows, s.in}, workspace);
}

/// dW = x' dy, in float.
template <typename T>
void linear_weight_gradient(const char* label, const LinearShape& s, const T* x, const T* dy, float* dweight,
                            Span<std::byte> workspace) {
  kernels::matmul<T, float>(label,
                            {.a = {x, s.rows, s.in}, .b = {dy, s.rows, s.out}, .transpose_a = kernels::Transpose::yes},
                            {dweight, s.in, s.out}, workspace);
}

/// Adds the product of linear() to a list of products.
template <typename T>
void list_linear(std::vector<kernels::Product>& list, const LinearShape& s, bool added = false, bool aligned = true) {
  list.push_back(kernels::product<T, T>({.m = s.rows, .n = s.out, .k = s.in, .bias = true, .added = added}, aligned));
}

/// Adds the product of linear_input_gradient(), or of linear_weight_gradient().
template <typename T>
void list_linear_input_gradient(std::vector<kernels::Product>& list, const LinearShape& s, bool aligned = true) {
  using kernels::Transpose;
  list.push_back(kernels::product<T, T>({.m = s.rows, .n = s.in, .k = s.out, .transpose_b = Transpose::yes}, aligned));
}
template <typename T>
void list_linear_weight_gradient(std::vector<kernels::Product>& list, const LinearShape& s, bool aligned = true) {
  using kernels::Transpose;
  list.push_back(kernels::product<T, float>({.m = s.in, .n = s.out, .k = s.rows, .transpose_a = Transpose::yes}, aligned));
}

/// Adds the product of linear_gelu(), or of linear_gelu_gradient().
template <typename T>
void list_linear_gelu(std::vector<kernels::Product>& list, const LinearShape& s) {
  list.push_back(
      kernels::product<T, T>({.m = s.rows, .n = s.out, .k = s.in, .bias = true, .activation = kernels::Activation::gelu}));
}
template <typename T>
void list_linear_gelu_gradient(std::vector<kernels::Product>& list, const LinearShape& s) {
  list.push_back(kernels::product<T, T>({.m = s.rows,
                                         .n = s.in,
                                         .k = s.out,
                                         .transpose_b = kernels::Transpose::yes,
                                         .activation = kernels::Activation::gelu_backward}));
}

/// The sizes of a batch, on which its products depend.
struct BatchSize {
  std::size_t sequences, length;
  bool operator==(const BatchSize&) const = default;
};

/// The products of a model and their workspace, planned for its whole capacity. oneDNN chooses its algorithm by shape, so
/// the products of a smaller batch may need more than those of a larger one (a weight gradient of 384 x 1152 in fp32: 0.4 MB
/// for 508 rows, nothing for 2048). For such a batch more memory is allocated, which is not part of the memory plan, and on
/// a GPU each rank chooses the algorithms itself: training always runs at the whole capacity.
class ProductWorkspace {
 public:
  using Products = std::vector<kernels::Product>;
  ProductWorkspace() = default;
  /// planned: of batches of `capacity`, and those that do not depend on the batch.
  ProductWorkspace(Memory& memory, BatchSize capacity, Products planned)
      : capacity_(capacity),
        products_(std::move(planned)),
        planned_(memory.take<std::byte>(Kind::buffers, kernels::workspace_bytes(products_), "matrix products' workspace")) {}

  const Products& products() const { return products_; }
  Span<std::byte> planned() const { return planned_; }
  /// The workspace for batches of this size; products_of(size) lists their products.
  template <class ProductsOf>
  Span<std::byte> of(BatchSize size, const ProductsOf& products_of) {
    if (size == capacity_) return planned_;
    if (size != other_) {
      const Products products = products_of(size);
      kernels::choose_missing_algorithms(products);
      other_bytes_ = kernels::workspace_bytes(products);
      other_ = size;
    }
    return unplanned(other_bytes_);
  }

 private:
  Span<std::byte> unplanned(std::size_t bytes) {
    if (bytes <= planned_.size()) return planned_;
    if (bytes > unplanned_.size()) {
      // The end of the former memory waits for products that use it.
      more_ = std::make_unique<device::DeviceMemory>(
          [&](Memory& memory) { unplanned_ = memory.take<std::byte>(Kind::buffers, bytes, "matrix products' workspace"); });
    }
    return unplanned_;
  }

  BatchSize capacity_{}, other_{};  // other_: the last size that is not the capacity
  Products products_;
  std::size_t other_bytes_ = 0;
  Span<std::byte> planned_, unplanned_;
  std::unique_ptr<device::DeviceMemory> more_;  // of unplanned_
};

}  // namespace shoal::model
