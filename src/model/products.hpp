// SPDX-License-Identifier: Apache-2.0
// The matrix products of a linear layer y = x W + bias, with W stored as [in, out], and their workspace.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>

#include "shoal/base/memory.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/kernels/matmul.hpp"

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

/// dx = dy W'.
template <typename T>
void linear_input_gradient(const char* label, const LinearShape& s, const T* dy, const T* weight, T* dx,
                           Span<std::byte> workspace) {
  kernels::matmul<T, T>(label,
                        {.a = {dy, s.rows, s.out}, .b = {weight, s.in, s.out}, .transpose_b = kernels::Transpose::yes},
                        {dx, s.rows, s.in}, workspace);
}

/// dW = x' dy, in float.
template <typename T>
void linear_weight_gradient(const char* label, const LinearShape& s, const T* x, const T* dy, float* dweight,
                            Span<std::byte> workspace) {
  kernels::matmul<T, float>(label,
                            {.a = {x, s.rows, s.in}, .b = {dy, s.rows, s.out}, .transpose_a = kernels::Transpose::yes},
                            {dweight, s.in, s.out}, workspace);
}

/// Bytes of workspace for linear(), with or without `added`, and, for training, for both gradients.
template <typename T>
std::size_t linear_workspace_bytes(const LinearShape& s, bool training, bool added = false) {
  using kernels::matmul_workspace_bytes;
  using kernels::Transpose;
  std::size_t bytes = matmul_workspace_bytes<T, T>({.m = s.rows, .n = s.out, .k = s.in, .bias = true, .added = added});
  if (training) {
    bytes =
        std::max({bytes, matmul_workspace_bytes<T, T>({.m = s.rows, .n = s.in, .k = s.out, .transpose_b = Transpose::yes}),
                  matmul_workspace_bytes<T, float>({.m = s.in, .n = s.out, .k = s.rows, .transpose_a = Transpose::yes})});
  }
  return bytes;
}

/// The workspace of a model's matrix products, planned for its whole capacity. oneDNN chooses its algorithm by shape, so the
/// products of a smaller batch may need more than those of a larger one (a weight gradient of 384 x 1152 in fp32: 0.4 MB for
/// 508 rows, nothing for 2048). For such a batch more memory is allocated, which is not part of the memory plan: training
/// always runs at the whole capacity.
class ProductWorkspace {
 public:
  ProductWorkspace() = default;
  ProductWorkspace(Memory& memory, std::size_t bytes)
      : planned_(memory.take<std::byte>(Kind::buffers, bytes, "matrix products' workspace")) {}
  Span<std::byte> of(std::size_t bytes) {
    if (bytes <= planned_.size()) return planned_;
    if (bytes > unplanned_.size()) {
      // The end of the former memory waits for products that use it.
      more_ = std::make_unique<device::DeviceMemory>(
          [&](Memory& memory) { unplanned_ = memory.take<std::byte>(Kind::buffers, bytes, "matrix products' workspace"); });
    }
    return unplanned_;
  }
  Span<std::byte> planned() const { return planned_; }

 private:
  Span<std::byte> planned_, unplanned_;
  std::unique_ptr<device::DeviceMemory> more_;  // of unplanned_
};

}  // namespace shoal::model
