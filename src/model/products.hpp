// SPDX-License-Identifier: Apache-2.0
// The products of a linear map y = x W + bias, W [in, out], and the workspace that they need.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/kernels/matmul.hpp"

namespace shoal::model {

template <typename T>
kernels::Matrix<const T> view(const T* data, std::size_t rows, std::size_t columns) {
  return {data, rows, columns};
}

/// y = x W + bias (+ added, of y's shape, which may be y).
template <typename T>
void linear(const char* label, std::size_t rows, std::size_t in, std::size_t out, const T* x, const T* weight, const T* bias,
            T* y, const T* added = nullptr) {
  kernels::MatmulOptions options;
  options.accumulate = added != nullptr;
  kernels::matmul(label, view(x, rows, in), view(weight, in, out), kernels::Matrix<T>(y, rows, out), options, bias, added);
}

/// dx = dy W'.
template <typename T>
void linear_input_gradient(const char* label, std::size_t rows, std::size_t in, std::size_t out, const T* dy,
                           const T* weight, T* dx) {
  kernels::MatmulOptions options;
  options.b = kernels::Transpose::yes;
  kernels::matmul(label, view(dy, rows, out), view(weight, in, out), kernels::Matrix<T>(dx, rows, in), options);
}

/// dW = x' dy in float.
template <typename T>
void linear_weight_gradient(const char* label, std::size_t rows, std::size_t in, std::size_t out, const T* x, const T* dy,
                            float* dweight) {
  kernels::MatmulOptions options;
  options.a = kernels::Transpose::yes;
  kernels::matmul(label, view(x, rows, in), view(dy, rows, out), kernels::Matrix<float>(dweight, in, out), options);
}

/// Bytes of workspace for the products above, whichever needs most: y = x W + bias or, where `added`, y += x W + bias.
template <typename T>
std::size_t linear_workspace_bytes(std::size_t rows, std::size_t in, std::size_t out, bool training, bool added = false) {
  using kernels::matmul_workspace_bytes;
  using kernels::Transpose;
  std::size_t bytes = matmul_workspace_bytes<T, T>(rows, out, in, {Transpose::no, Transpose::no, added}, true);
  if (training) {
    bytes = std::max({bytes, matmul_workspace_bytes<T, T>(rows, in, out, {Transpose::no, Transpose::yes, false}, false),
                      matmul_workspace_bytes<T, float>(in, out, rows, {Transpose::yes, Transpose::no, false}, false)});
  }
  return bytes;
}

/// What the library may use. Planned for the whole capacity; the library picks its code by shape, so that the products of a
/// smaller batch may want more than those of a larger one (a weight gradient of 384 x 1152 in fp32: 0.4 MB for 508 rows,
/// nothing for 2048). They get memory of their own then, which is no part of the plan: training always runs at the whole
/// capacity.
class ProductWorkspace {
 public:
  ProductWorkspace() = default;
  ProductWorkspace(Memory& memory, std::size_t bytes)
      : planned_(memory.take<std::byte>(Kind::buffers, bytes, "matrix products' workspace")) {}
  Span<std::byte> of(std::size_t bytes) {
    if (bytes <= planned_.size()) return planned_;
    unplanned_.resize(std::max(unplanned_.size(), (bytes + sizeof(Line) - 1) / sizeof(Line)));
    return {reinterpret_cast<std::byte*>(unplanned_.data()), unplanned_.size() * sizeof(Line)};
  }
  Span<std::byte> planned() const { return planned_; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  Span<std::byte> planned_;
  std::vector<Line> unplanned_;
};

/// Lends the library a workspace until the end of the scope.
class LentWorkspace {
 public:
  explicit LentWorkspace(Span<std::byte> workspace) { kernels::set_matmul_workspace(workspace); }
  ~LentWorkspace() { kernels::set_matmul_workspace({}); }
  LentWorkspace(const LentWorkspace&) = delete;
  LentWorkspace& operator=(const LentWorkspace&) = delete;
};

}  // namespace shoal::model
