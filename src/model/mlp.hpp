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
UseOrders use_orders(const ModelOptions& options, const Capacity& capacity);
std::vector<std::string> problems(const ModelOptions& options);
}  // namespace mlp

template <typename T>
class Mlp final : public Model {
 public:
  Mlp(const ModelOptions& options, const Capacity& capacity, std::uint64_t seed, Memory& memory, UnitAccess& access);

  std::size_t predictions(const MicroBatch& batch) const override { return batch.sequences; }
  std::size_t border_elements(const MicroBatch& batch) const override { return batch.sequences * options_.inner(); }
  void forward(std::size_t slot, const MicroBatch& batch, const Flow& flow, float gradient_scale, double* loss) override;
  void backward(std::size_t slot, const Flow& flow) override;
  void evaluate(const MicroBatch& batch, const Flow& flow, double* loss) override;
  void logits(const MicroBatch& batch, Span<float> out) override;
  const std::vector<kernels::Product>& products() const override { return product_workspace_.products(); }

 private:
  /// What forward saves for the backward pass of one micro-batch.
  struct Slot {
    bool whole = true;         // the outputs of the last segment are not computed again
    T* embedded = nullptr;     // [sequences, length * n_embd]
    std::vector<T*> hidden;    // for each layer [sequences, n_inner]; only the last of a segment has its own memory
    T* gradient = nullptr;     // of the last layer's output: forward makes it, in the head's part
    MicroBatch batch;          // of the last forward
    const T* input = nullptr;  // of the first layer of the part
    const std::int32_t *tokens = nullptr, *targets = nullptr;  // on the device
  };

  void take_slots(Memory& memory);
  void take_head(Memory& memory);
  void take_gradients(Memory& memory);
  void check(const MicroBatch& batch, const Flow& flow) const;
  std::vector<kernels::Product> products_of(BatchSize size) const;
  void set_product_workspace(const MicroBatch& batch);
  /// Returns the output of the last hidden layer of the part.
  const T* run_hidden(Slot& slot, const MicroBatch& batch, const Flow& flow);
  void hidden_forward(const Slot& slot, const MicroBatch& batch, std::size_t layer);
  void check_targets(const MicroBatch& batch) const;
  /// Enqueues the copy of the batch's tokens to the device: all inputs, and of each sequence the last target.
  void upload(std::size_t slot, const MicroBatch& batch);
  /// w: the head's.
  void output(const Weights<T>& w, std::size_t rows, const T* hidden, float* logits);
  /// Computes the gradients of the head, and of its input (in dx), from dlogits_.
  void head_backward(const Weights<T>& w, std::size_t rows, const T* hidden, T* dx);
  /// Where three gradients of a layer are: y, of its output; u, of its matrix product, before the ReLU; x, of its input.
  struct HiddenGradients {
    const T* y;
    T* u;  // may be y
    T* x;
  };
  /// Computes those of u and x from that of y, and those of the layer's parameters.
  void hidden_backward(const Slot& slot, std::size_t layer, const HiddenGradients& gradients);
  void embedding_backward(const Slot& slot, const T* dx);

  /// layer: counted within the part. Only the first layer of the whole model reads embeddings.
  bool is_first(std::size_t layer) const { return part_.embedding && layer == 0; }
  int hidden_unit(std::size_t layer) const { return 1 + static_cast<int>(part_.layers.begin + layer); }
  const UnitLayout& hidden_layout(std::size_t layer) const { return units_[1 + part_.layers.begin + layer]; }
  /// A sequence shorter than block_size is computed as if its missing first tokens had embeddings of zero: the first layer
  /// uses its weight from this row on.
  std::size_t first_row(std::size_t length) const { return (options_.block_size - length) * options_.n_embd; }
  int head_unit() const { return static_cast<int>(units_.size()) - 1; }

  ModelOptions options_;
  Capacity capacity_;
  PartLayers part_;
  UnitAccess& access_;
  std::vector<UnitLayout> units_;  // of the whole model
  Segments segments_;

  std::vector<Slot> slots_;
  T *dx_ = nullptr, *next_dx_ = nullptr;  // scratch: gradients of the outputs of two layers
  float *logits_ = nullptr, *losses_ = nullptr;
  T* dlogits_ = nullptr;
  TokenBuffer tokens_;
  Span<std::byte> workspace_;
  ProductWorkspace product_workspace_;
  Span<std::byte> products_;  // the workspace for the current batch
};

}  // namespace shoal::model
