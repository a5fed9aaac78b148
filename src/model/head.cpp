// SPDX-License-Identifier: Apache-2.0
#include "head.hpp"

#include <algorithm>
#include <type_traits>

#include "products.hpp"
#include "shoal/base/bump_allocator.hpp"
#include "shoal/kernels/cross_entropy.hpp"

namespace shoal::model {

namespace {

// A chunk's logits and their gradient. Each chunk reads the weight twice and reads and writes its gradient once, so chunks
// are as few as memory allows: 4 for GPT-2's vocabulary and 1024 rows.
constexpr std::size_t chunk_bytes = std::size_t{64} << 20U;
constexpr std::size_t chunk_alignment = 16;  // rows

template <typename T>
constexpr bool separate_gradient = !std::is_same_v<T, float>;  // float gradients are written over the logits

}  // namespace

template <typename T>
Head<T>::Head(std::size_t rows, std::size_t C, std::size_t V, bool training) : C_(C), V_(V), training_(training) {
  const std::size_t row_bytes = V * (sizeof(float) + (separate_gradient<T> ? sizeof(T) : 0));
  const std::size_t fitting = std::max(chunk_alignment, chunk_bytes / row_bytes / chunk_alignment * chunk_alignment);
  const std::size_t chunks = (rows + fitting - 1) / fitting;
  chunk_rows_ = std::min(rows, round_up((rows + chunks - 1) / chunks, chunk_alignment));
}

template <typename T>
std::size_t Head<T>::scratch_bytes() const {
  BumpAllocator counted;
  counted.take<float>(chunk_rows_ * V_);
  if (training_ && separate_gradient<T>) counted.take<T>(chunk_rows_ * V_);
  return counted.used();
}

template <typename T>
std::size_t Head<T>::logits_workspace_bytes(std::size_t rows) const {
  return kernels::matmul_workspace_bytes<T, float>(rows, V_, C_, {kernels::Transpose::no, kernels::Transpose::yes, false},
                                                   false);
}

template <typename T>
std::size_t Head<T>::losses_workspace_bytes(std::size_t rows) const {
  using kernels::matmul_workspace_bytes;
  using kernels::Transpose;
  std::size_t bytes = 0;
  for (const std::size_t chunk : {std::min(rows, chunk_rows_), rows % chunk_rows_}) {
    if (chunk == 0) continue;
    bytes = std::max(bytes, logits_workspace_bytes(chunk));
    if (!training_) continue;
    bytes = std::max({bytes, matmul_workspace_bytes<T, T>(chunk, C_, V_, {Transpose::no, Transpose::no, false}, false),
                      matmul_workspace_bytes<T, float>(V_, C_, chunk, {Transpose::yes, Transpose::no, false}, false),
                      matmul_workspace_bytes<T, float>(V_, C_, chunk, {Transpose::yes, Transpose::no, true}, false)});
  }
  return bytes;
}

template <typename T>
void Head<T>::losses(std::size_t rows, const T* hidden, const T* weight, const std::int32_t* targets, float* losses,
                     const HeadGradient<T>* gradient, Span<std::byte> scratch) const {
  BumpAllocator buffers(scratch);
  float* const logits_chunk = buffers.take<float>(chunk_rows_ * V_);
  T* dlogits = nullptr;
  if constexpr (separate_gradient<T>) {
    if (gradient != nullptr) dlogits = buffers.take<T>(chunk_rows_ * V_);
  } else {
    dlogits = logits_chunk;
  }
  for (std::size_t first = 0; first < rows; first += chunk_rows_) {
    const std::size_t n = std::min(chunk_rows_, rows - first);
    const T* const h = hidden + first * C_;
    logits(n, h, weight, logits_chunk);
    if (gradient == nullptr) {
      kernels::cross_entropy_forward(n, V_, logits_chunk, targets + first, losses + first);
      continue;
    }
    kernels::cross_entropy(n, V_, logits_chunk, targets + first, gradient->scale, losses + first, dlogits);
    kernels::matmul("head_dx", view<T>(dlogits, n, V_), view(weight, V_, C_),
                    kernels::Matrix<T>(gradient->hidden + first * C_, n, C_));
    kernels::matmul("head_dw", view<T>(dlogits, n, V_), view(h, n, C_), kernels::Matrix<float>(gradient->weight, V_, C_),
                    {kernels::Transpose::yes, kernels::Transpose::no, first > 0});
  }
}

template <typename T>
void Head<T>::logits(std::size_t rows, const T* hidden, const T* weight, float* logits) const {
  kernels::matmul("head", view(hidden, rows, C_), view(weight, V_, C_), kernels::Matrix<float>(logits, rows, V_),
                  {kernels::Transpose::no, kernels::Transpose::yes, false});
}

template class Head<float>;
template class Head<bf16>;
template class Head<f16>;

}  // namespace shoal::model
