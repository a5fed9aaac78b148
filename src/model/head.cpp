// SPDX-License-Identifier: Apache-2.0
#include "head.hpp"

#include <algorithm>
#include <type_traits>

#include "shoal/base/bump_allocator.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/kernels/cross_entropy.hpp"

namespace shoal::model {

using kernels::Transpose;

namespace {

// Bytes of the logits of a chunk and their gradient. Each chunk reads the weight twice, and reads and writes the weight's
// gradient once. So there should be few chunks: 4 for GPT-2's vocabulary and 1024 rows.
constexpr std::size_t chunk_bytes = std::size_t{64} << 20U;
constexpr std::size_t chunk_alignment = 16;  // rows

template <typename T>
constexpr bool separate_gradient = !std::is_same_v<T, float>;  // float gradients are written over the logits

}  // namespace

template <typename T>
Head<T>::Head(std::size_t rows, std::size_t C, VocabularyShape vocabulary, bool training)
    : C_(C), vocabulary_(vocabulary), training_(training) {
  const std::size_t row_bytes = vocabulary.rows * (sizeof(float) + (separate_gradient<T> ? sizeof(T) : 0));
  const std::size_t fitting = std::max(chunk_alignment, chunk_bytes / row_bytes / chunk_alignment * chunk_alignment);
  const std::size_t chunks = (rows + fitting - 1) / fitting;
  chunk_rows_ = std::min(rows, round_up((rows + chunks - 1) / chunks, chunk_alignment));
}

template <typename T>
std::size_t Head<T>::scratch_bytes() const {
  BumpAllocator counted;
  counted.take<float>(chunk_rows_ * vocabulary_.rows);
  if (training_ && separate_gradient<T>) counted.take<T>(chunk_rows_ * vocabulary_.rows);
  return counted.used();
}

template <typename T>
kernels::Product Head<T>::logits_product(std::size_t rows, std::size_t columns) const {
  return kernels::product<T, float>({.m = rows, .n = columns, .k = C_, .transpose_b = Transpose::yes});
}

template <typename T>
std::vector<std::size_t> Head<T>::chunks(std::size_t rows) const {
  if (rows == 0) return {};
  if (rows <= chunk_rows_) return {rows};
  const std::size_t left = rows % chunk_rows_;
  return left == 0 ? std::vector{chunk_rows_} : std::vector{chunk_rows_, left};
}

template <typename T>
std::vector<kernels::Product> Head<T>::logits_products(std::size_t rows) const {
  std::vector<kernels::Product> list;
  for (const std::size_t chunk : chunks(rows)) list.push_back(logits_product(chunk, vocabulary_.symbols));
  return list;
}

template <typename T>
std::vector<kernels::Product> Head<T>::losses_products(std::size_t rows) const {
  const std::size_t V = vocabulary_.rows;
  std::vector<kernels::Product> list;
  const auto weight_gradient = [&](std::size_t chunk, bool added) {
    list.push_back(kernels::product<T, float>({.m = V, .n = C_, .k = chunk, .transpose_a = Transpose::yes, .added = added}));
  };
  for (const std::size_t chunk : chunks(rows)) {
    list.push_back(logits_product(chunk, V));
    if (training_) list.push_back(kernels::product<T, T>({.m = chunk, .n = C_, .k = V}));
  }
  if (!training_ || rows == 0) return list;
  weight_gradient(std::min(rows, chunk_rows_), false);
  if (rows >= 2 * chunk_rows_) weight_gradient(chunk_rows_, true);
  if (rows > chunk_rows_ && rows % chunk_rows_ != 0) weight_gradient(rows % chunk_rows_, true);
  return list;
}

template <typename T>
void Head<T>::losses(const HeadInputs<T>& in, float* losses, const HeadGradient<T>* gradient, Span<std::byte> scratch,
                     Span<std::byte> workspace) const {
  const std::size_t V = vocabulary_.rows;
  BumpAllocator buffers(scratch);
  float* const logits_chunk = buffers.take<float>(chunk_rows_ * V);
  T* dlogits = nullptr;
  if constexpr (separate_gradient<T>) {
    if (gradient != nullptr) dlogits = buffers.take<T>(chunk_rows_ * V);
  } else {
    dlogits = logits_chunk;
  }
  for (std::size_t first = 0; first < in.rows; first += chunk_rows_) {
    const std::size_t n = std::min(chunk_rows_, in.rows - first);
    const T* const h = in.hidden + first * C_;
    const kernels::CrossEntropyInputs chunk{.logits = logits_chunk, .targets = in.targets + first, .stride = V};
    product(n, h, {in.weight, V, C_}, logits_chunk, workspace);
    if (gradient == nullptr) {
      kernels::cross_entropy_forward({n, vocabulary_.symbols}, chunk, losses + first);
      continue;
    }
    kernels::cross_entropy<T>({n, vocabulary_.symbols}, chunk, gradient->scale,
                              {.losses = losses + first, .dlogits = dlogits});
    kernels::matmul<T, T>("head_dx", {.a = {dlogits, n, V}, .b = {in.weight, V, C_}}, {gradient->hidden + first * C_, n, C_},
                          workspace);
    kernels::matmul<T, float>("head_dw",
                              {.a = {dlogits, n, V},
                               .b = {h, n, C_},
                               .transpose_a = Transpose::yes,
                               .added = first > 0 ? gradient->weight : nullptr},
                              {gradient->weight, V, C_}, workspace);
  }
}

template <typename T>
void Head<T>::logits(std::size_t rows, const T* hidden, const T* weight, float* logits, Span<std::byte> scratch,
                     Span<std::byte> workspace) const {
  const std::size_t V = vocabulary_.symbols;
  float* const logits_chunk = BumpAllocator(scratch).take<float>(chunk_rows_ * V);
  for (std::size_t first = 0; first < rows; first += chunk_rows_) {
    const std::size_t n = std::min(chunk_rows_, rows - first);
    product(n, hidden + first * C_, {weight, V, C_}, logits_chunk, workspace);
    device::copy(n * V * sizeof(float), logits_chunk, logits + first * V);
  }
  device::wait_for_queue();
}

template <typename T>
void Head<T>::product(std::size_t rows, const T* hidden, const kernels::Matrix<const T>& weight, float* logits,
                      Span<std::byte> workspace) const {
  kernels::matmul<T, float>("head", {.a = {hidden, rows, C_}, .b = weight, .transpose_b = Transpose::yes},
                            {logits, rows, weight.rows}, workspace);
}

template class Head<float>;
template class Head<bf16>;
template class Head<f16>;

}  // namespace shoal::model
