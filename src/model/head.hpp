// SPDX-License-Identifier: Apache-2.0
// Logits, softmax and cross-entropy in chunks of rows: with a vocabulary of 50 000 the logits of a micro-batch are several
// times the size of all other activations, so they never exist whole, nor does their gradient.
#pragma once

#include <cstddef>
#include <cstdint>

#include "views.hpp"

namespace shoal::model {

/// What the head's backward, which is part of its forward, is to make. scale multiplies the gradient of the summed loss.
template <typename T>
struct HeadGradient {
  float scale;
  T* hidden;      ///< [rows, C]
  float* weight;  ///< [V, C], overwritten
};

template <typename T>
class Head {
 public:
  /// For up to `rows` rows of C, and V symbols.
  Head(std::size_t rows, std::size_t C, std::size_t V, bool training);

  /// Bytes of scratch, which is free again after each call.
  std::size_t scratch_bytes() const;
  /// Bytes of the library's workspace for losses() and for logits() of so many rows.
  std::size_t losses_workspace_bytes(std::size_t rows) const;
  std::size_t logits_workspace_bytes(std::size_t rows) const;

  /// losses[r] = -ln softmax(hidden[r] weight')[targets[r]]; weight [V, C]. gradient may be null.
  void losses(std::size_t rows, const T* hidden, const T* weight, const std::int32_t* targets, float* losses,
              const HeadGradient<T>* gradient, Span<std::byte> scratch) const;

  /// logits [rows, V]; rows may be any number.
  void logits(std::size_t rows, const T* hidden, const T* weight, float* logits) const;

 private:
  std::size_t chunk_rows_, C_, V_;
  bool training_;
};

}  // namespace shoal::model
