// SPDX-License-Identifier: Apache-2.0
// Logits, softmax and cross-entropy in chunks of rows. The logits are a product of the hidden activations and the head's
// weight, or with a direct connection (ModelOptions::direct) the sum of two products. With a vocabulary of 50 000 the logits
// of a micro-batch are several times as large as all other activations, so neither the logits nor their gradient are ever
// stored as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "shoal/kernels/matmul.hpp"
#include "shoal/kernels/products.hpp"
#include "views.hpp"

namespace shoal::model {

/// The symbols V and the rows of the weight in memory, of which those from V on are zero (gpt::vocabulary_rows()).
struct VocabularyShape {
  std::size_t symbols, rows;
};

/// A product whose result is a summand of the logits: input weight'.
template <typename T>
struct LogitsProduct {
  const T* input;   ///< [rows, C]
  const T* weight;  ///< [VocabularyShape::rows, C]
};

/// The gradients of its operands.
template <typename T>
struct LogitsProductGradient {
  T* input;       ///< [rows, C]
  float* weight;  ///< [VocabularyShape::rows, C], overwritten; zero from row V on
};

/// The inputs of the losses.
template <typename T>
struct HeadInputs {
  std::size_t rows;
  LogitsProduct<T> hidden;
  std::optional<LogitsProduct<T>> direct;  ///< if the head has a direct connection
  const std::int32_t* targets;             ///< [rows]
};

/// The gradients that losses() computes, as the head's backward is a part of its forward. scale multiplies the gradient of
/// the summed loss.
template <typename T>
struct HeadGradient {
  float scale;
  LogitsProductGradient<T> hidden;
  std::optional<LogitsProductGradient<T>> direct;
};

/// The labels of a product and of those for its gradients, in traces.
struct HeadLabels {
  const char *product, *input_gradient, *weight_gradient;
};

/// What a Head is for.
struct HeadUse {
  bool training, direct;
};

template <typename T>
class Head {
 public:
  /// For up to `rows` rows of C elements.
  Head(std::size_t rows, std::size_t C, VocabularyShape vocabulary, HeadUse use);

  /// Bytes of scratch memory of losses() and logits(), which holds nothing between two calls.
  std::size_t scratch_bytes() const;
  /// The matrix products of losses() and of logits() with this many rows.
  std::vector<kernels::Product> losses_products(std::size_t rows) const;
  std::vector<kernels::Product> logits_products(std::size_t rows) const;

  /// losses[r] = -ln softmax(logits[r])[targets[r]], where the logits are hidden [+ direct]. Without gradients if `gradient`
  /// is null.
  void losses(const HeadInputs<T>& in, float* losses, const HeadGradient<T>* gradient, Span<std::byte> scratch,
              Span<std::byte> workspace) const;

  /// logits [in.rows, V], in memory of the host, which waits for them. Does not read the weights' rows of zeros, nor
  /// in.targets.
  void logits(const HeadInputs<T>& in, float* logits, Span<std::byte> scratch, Span<std::byte> workspace) const;

 private:
  /// logits [rows.size(), columns] of these rows; columns: V, or the rows of the weights.
  void product(const HeadInputs<T>& in, Range rows, std::size_t columns, float* logits, Span<std::byte> workspace) const;
  /// The gradients of a product from those of the logits of some rows.
  void backward(const HeadLabels& labels, const LogitsProduct<T>& of, const LogitsProductGradient<T>& gradient, Range rows,
                const T* dlogits, Span<std::byte> workspace) const;
  void list_logits_product(std::vector<kernels::Product>& list, std::size_t rows, std::size_t columns) const;
  /// The numbers of rows of the chunks: of the first one, and of the last one if it has fewer.
  std::vector<std::size_t> chunks(std::size_t rows) const;

  std::size_t chunk_rows_, C_;
  VocabularyShape vocabulary_;
  HeadUse use_;
};

}  // namespace shoal::model
