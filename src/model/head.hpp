// SPDX-License-Identifier: Apache-2.0
// Logits, softmax and cross-entropy in chunks of rows. With a vocabulary of 50 000 the logits of a micro-batch are several
// times as large as all other activations, so neither the logits nor their gradient are ever stored as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shoal/kernels/matmul.hpp"
#include "shoal/kernels/products.hpp"
#include "views.hpp"

namespace shoal::model {

/// The symbols V and the rows of the weight in memory, of which those from V on are zero (gpt::vocabulary_rows()).
struct VocabularyShape {
  std::size_t symbols, rows;
};

/// The inputs of the losses.
template <typename T>
struct HeadInputs {
  std::size_t rows;
  const T* hidden;              ///< [rows, C]
  const T* weight;              ///< [VocabularyShape::rows, C]
  const std::int32_t* targets;  ///< [rows]
};

/// The gradients that losses() computes, as the head's backward is a part of its forward. scale multiplies the gradient of
/// the summed loss.
template <typename T>
struct HeadGradient {
  float scale;
  T* hidden;      ///< [rows, C]
  float* weight;  ///< [VocabularyShape::rows, C], overwritten; zero from row V on
};

template <typename T>
class Head {
 public:
  /// For up to `rows` rows of C elements.
  Head(std::size_t rows, std::size_t C, VocabularyShape vocabulary, bool training);

  /// Bytes of scratch memory of losses() and logits(), which holds nothing between two calls.
  std::size_t scratch_bytes() const;
  /// The matrix products of losses() and of logits() with this many rows.
  std::vector<kernels::Product> losses_products(std::size_t rows) const;
  std::vector<kernels::Product> logits_products(std::size_t rows) const;

  /// losses[r] = -ln softmax(hidden[r] weight')[targets[r]]. Without gradients if `gradient` is null.
  void losses(const HeadInputs<T>& in, float* losses, const HeadGradient<T>* gradient, Span<std::byte> scratch,
              Span<std::byte> workspace) const;

  /// logits [rows, V] = hidden weight', in memory of the host, which waits for them. Does not read the weight's rows of
  /// zeros.
  void logits(std::size_t rows, const T* hidden, const T* weight, float* logits, Span<std::byte> scratch,
              Span<std::byte> workspace) const;

 private:
  /// logits [rows, rows of the weight] = hidden weight'.
  void product(std::size_t rows, const T* hidden, const kernels::Matrix<const T>& weight, float* logits,
               Span<std::byte> workspace) const;
  kernels::Product logits_product(std::size_t rows, std::size_t columns) const;
  /// The numbers of rows of the chunks: of the first one, and of the last one if it has fewer.
  std::vector<std::size_t> chunks(std::size_t rows) const;

  std::size_t chunk_rows_, C_;
  VocabularyShape vocabulary_;
  bool training_;
};

}  // namespace shoal::model
