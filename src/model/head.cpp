// SPDX-License-Identifier: Apache-2.0
#include "head.hpp"

#include <algorithm>
#include <type_traits>

#include "shoal/base/bump_allocator.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/device/kind.hpp"
#include "shoal/kernels/cross_entropy.hpp"

namespace shoal::model {

using kernels::Transpose;

namespace {

// Bytes of the logits of a chunk and their gradient. Each chunk reads the weight twice, and reads and writes the weight's
// gradient once. So there should be few chunks: 4 for GPT-2's vocabulary and 1024 rows. A GPU needs more rows to be busy: on
// an H200 the head's three products of 16384 rows take 16.2 ms in chunks of 208 rows, 6.4 ms in chunks of 2048.
std::size_t chunk_bytes() { return (device::kind() == device::DeviceKind::cuda ? 640UL : 64UL) << 20U; }
constexpr std::size_t chunk_alignment = 16;  // rows

constexpr HeadLabels of_head = {"head", "head_dx", "head_dw"}, of_direct = {"direct", "direct_dx", "direct_dw"};

template <typename T>
constexpr bool separate_gradient = !std::is_same_v<T, float>;  // float gradients are written over the logits

}  // namespace

template <typename T>
Head<T>::Head(std::size_t rows, std::size_t C, VocabularyShape vocabulary, HeadUse use)
    : C_(C), vocabulary_(vocabulary), use_(use) {
  const std::size_t row_bytes = vocabulary.rows * (sizeof(float) + (separate_gradient<T> ? sizeof(T) : 0));
  const std::size_t fitting = std::max(chunk_alignment, chunk_bytes() / row_bytes / chunk_alignment * chunk_alignment);
  const std::size_t chunks = (rows + fitting - 1) / fitting;
  chunk_rows_ = std::min(rows, round_up((rows + chunks - 1) / chunks, chunk_alignment));
}

template <typename T>
std::size_t Head<T>::scratch_bytes() const {
  BumpAllocator counted;
  counted.take<float>(chunk_rows_ * vocabulary_.rows);
  if (use_.training && separate_gradient<T>) counted.take<T>(chunk_rows_ * vocabulary_.rows);
  return counted.used();
}

template <typename T>
void Head<T>::list_logits_product(std::vector<kernels::Product>& list, std::size_t rows, std::size_t columns) const {
  for (const bool added : {false, true}) {
    if (added && !use_.direct) continue;
    list.push_back(
        kernels::product<T, float>({.m = rows, .n = columns, .k = C_, .transpose_b = Transpose::yes, .added = added}));
  }
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
  for (const std::size_t chunk : chunks(rows)) list_logits_product(list, chunk, vocabulary_.symbols);
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
    list_logits_product(list, chunk, V);
    if (use_.training) list.push_back(kernels::product<T, T>({.m = chunk, .n = C_, .k = V}));
  }
  if (!use_.training || rows == 0) return list;
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
    const Range rows = {first, std::min(first + chunk_rows_, in.rows)};
    const kernels::CrossEntropyInputs chunk{.logits = logits_chunk, .targets = in.targets + first, .stride = V};
    product(in, rows, V, logits_chunk, workspace);
    if (gradient == nullptr) {
      kernels::cross_entropy_forward({rows.size(), vocabulary_.symbols}, chunk, losses + first);
      continue;
    }
    kernels::cross_entropy<T>({rows.size(), vocabulary_.symbols}, chunk, gradient->scale,
                              {.losses = losses + first, .dlogits = dlogits});
    backward(of_head, in.hidden, gradient->hidden, rows, dlogits, workspace);
    if (in.direct) backward(of_direct, *in.direct, *gradient->direct, rows, dlogits, workspace);
  }
}

template <typename T>
void Head<T>::backward(const HeadLabels& labels, const LogitsProduct<T>& of, const LogitsProductGradient<T>& gradient,
                       Range rows, const T* dlogits, Span<std::byte> workspace) const {
  const std::size_t V = vocabulary_.rows, n = rows.size();
  kernels::matmul<T, T>(labels.input_gradient, {.a = {dlogits, n, V}, .b = {of.weight, V, C_}},
                        {gradient.input + rows.begin * C_, n, C_}, workspace);
  kernels::matmul<T, float>(labels.weight_gradient,
                            {.a = {dlogits, n, V},
                             .b = {of.input + rows.begin * C_, n, C_},
                             .transpose_a = Transpose::yes,
                             .added = rows.begin > 0 ? gradient.weight : nullptr},
                            {gradient.weight, V, C_}, workspace);
}

template <typename T>
void Head<T>::logits(const HeadInputs<T>& in, float* logits, Span<std::byte> scratch, Span<std::byte> workspace) const {
  const std::size_t V = vocabulary_.symbols;
  float* const logits_chunk = BumpAllocator(scratch).take<float>(chunk_rows_ * V);
  for (std::size_t first = 0; first < in.rows; first += chunk_rows_) {
    const Range rows = {first, std::min(first + chunk_rows_, in.rows)};
    product(in, rows, V, logits_chunk, workspace);
    device::copy(rows.size() * V * sizeof(float), logits_chunk, logits + first * V);
  }
  device::wait_for_queue();
}

template <typename T>
void Head<T>::product(const HeadInputs<T>& in, Range rows, std::size_t columns, float* logits,
                      Span<std::byte> workspace) const {
  const auto multiply = [&](const HeadLabels& labels, const LogitsProduct<T>& of, const float* added) {
    kernels::matmul<T, float>(labels.product,
                              {.a = {of.input + rows.begin * C_, rows.size(), C_},
                               .b = {of.weight, columns, C_},
                               .transpose_b = Transpose::yes,
                               .added = added},
                              {logits, rows.size(), columns}, workspace);
  };
  multiply(of_head, in.hidden, nullptr);
  if (in.direct) multiply(of_direct, *in.direct, logits);
}

template class Head<float>;
template class Head<bf16>;
template class Head<f16>;

}  // namespace shoal::model
