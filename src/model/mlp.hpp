// SPDX-License-Identifier: Apache-2.0
// A classifier that predicts the next token from the block_size tokens before it (Bengio, Ducharme, Vincent, Jauvin 2003).
// It concatenates their embeddings and has n_layer hidden layers of n_inner with ReLU, and a head with its own weight. There
// is one prediction for each sequence: the last target. It is the smallest model here, and an example for new ones.
#pragma once

#include <string>
#include <vector>

#include "products.hpp"
#include "segments.hpp"
#include "shoal/model/model.hpp"
#include "token_buffer.hpp"
#include "views.hpp"

namespace shoal::model {

namespace mlp {
std::vector<UnitLayout> layout(const ModelOptions& options);
Segments segments(const ModelOptions& options, const Capacity& capacity);
std::vector<std::vector<int>> use_order(const ModelOptions& options, const Capacity& capacity);
std::vector<std::string> problems(const ModelOptions& options);
}  // namespace mlp

template <typename T>
class Mlp final : public Model {
 public:
  Mlp(const ModelOptions& options, const Capacity& capacity, std::uint64_t seed, Memory& memory, UnitAccess& access);

  std::size_t predictions(const MicroBatch& batch) const override { return batch.sequences; }
  void forward(const MicroBatch& batch, float gradient_scale, double* loss) override;
  void backward() override;
  void evaluate(const MicroBatch& batch, double* loss) override;
  void logits(const MicroBatch& batch, Span<float> out) override;
  const std::vector<kernels::Product>& products() const override { return product_workspace_.products(); }

 private:
  void check(const MicroBatch& batch) const;
  std::vector<kernels::Product> products_of(BatchSize size) const;
  void set_product_workspace(const MicroBatch& batch);
  /// Returns the output of the last hidden layer.
  const T* run_hidden(const MicroBatch& batch);
  void hidden_forward(const MicroBatch& batch, std::size_t layer);
  void check_targets(const MicroBatch& batch) const;
  /// Enqueues the copy of the batch's tokens to the device: all inputs, and of each sequence the last target.
  void upload(const MicroBatch& batch);
  /// w: the head's.
  void output(const Weights<T>& w, std::size_t rows, const T* hidden, float* logits);
  /// Computes the gradients of the head, and of its input (in dx_), from dlogits_.
  void head_backward(const Weights<T>& w, std::size_t rows, const T* hidden);
  void hidden_backward(std::size_t rows, std::size_t layer);

  /// A sequence shorter than block_size is computed as if its missing first tokens had embeddings of zero: the first layer
  /// uses its weight from this row on.
  std::size_t first_row(std::size_t length) const { return (options_.block_size - length) * options_.n_embd; }
  int head_unit() const { return static_cast<int>(units_.size()) - 1; }

  ModelOptions options_;
  Capacity capacity_;
  UnitAccess& access_;
  std::vector<UnitLayout> units_;
  Segments segments_;

  T* embedded_ = nullptr;   // [sequences, length * n_embd]
  std::vector<T*> hidden_;  // for each layer [sequences, n_inner]; only the last of a segment has its own memory
  T* dx_ = nullptr;         // gradient of the output of the current layer
  T* next_dx_ = nullptr;    // gradient of its input
  float *logits_ = nullptr, *losses_ = nullptr;
  T* dlogits_ = nullptr;
  TokenBuffer tokens_;
  const std::int32_t *inputs_ = nullptr, *targets_ = nullptr;  // on the device, of the last batch
  Span<std::byte> workspace_;
  ProductWorkspace product_workspace_;
  Span<std::byte> products_;  // the workspace for the current batch
  MicroBatch kept_;
};

}  // namespace shoal::model
