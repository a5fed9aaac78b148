// SPDX-License-Identifier: Apache-2.0
// GPT-2 (Radford et al. 2019): embeddings, n_layer blocks, a final norm, and a head whose weight may be that of the token
// embedding.
#pragma once

#include <optional>
#include <vector>

#include "block.hpp"
#include "gpt_slots.hpp"
#include "head.hpp"
#include "products.hpp"
#include "segments.hpp"
#include "shoal/model/model.hpp"
#include "token_buffer.hpp"

namespace shoal::model {

/// Its functions are in gpt.cpp, gpt_backward.cpp, gpt_head.cpp, gpt_decoder.cpp and gpt_memory.cpp.
template <typename T>
class Gpt final : public Model, private Decoder {
 public:
  Gpt(const ModelOptions& options, const Capacity& capacity, std::uint64_t seed, Memory& memory, UnitAccess& access);

  std::size_t predictions(const MicroBatch& batch) const override { return batch.sequences * batch.length; }
  std::size_t border_elements(const MicroBatch& batch) const override {
    return batch.sequences * batch.length * options_.n_embd;
  }
  void forward(std::size_t slot, const MicroBatch& batch, const Flow& flow, float gradient_scale, double* loss) override;
  void backward(std::size_t slot, const Flow& flow) override;
  void evaluate(const MicroBatch& batch, const Flow& flow, double* loss) override;
  void logits(const MicroBatch& batch, Span<float> out) override;
  const std::vector<kernels::Product>& products() const override { return product_workspace_.products(); }
  std::vector<std::string> prepare() override {
    const bool backward = capacity_.training && options_.dropout == 0;
    return kernels::prepare_attention<T>(shape(capacity_.sequences, capacity_.length).attention(), backward);
  }
  Decoder* decoder() override { return decoding_ ? this : nullptr; }

 private:
  using Slot = gpt::Slot<T>;
  /// What a direct connection multiplies and its gradient, [rows, C]. Null without one; the gradient also in an evaluation.
  struct Direct {
    const T* input = nullptr;
    T* gradient = nullptr;
  };

  std::size_t positions() const override { return capacity_.length; }
  void prefill(Span<const std::int32_t> tokens, Span<float> logits) override;
  void decode(std::int32_t token, Span<float> logits) override;

  void take_activations(Memory& memory);
  void take_gradients(Memory& memory);
  void take_scratch(Memory& memory);
  std::vector<kernels::Product> products_of(BatchSize size, bool decoding) const;
  /// Sets the workspace of all matrix products until the next call.
  void set_product_workspace(const MicroBatch& batch);
  void check(const MicroBatch& batch, const Flow& flow) const;
  void check_targets(const MicroBatch& batch) const;
  /// Enqueues the copy of the batch's tokens to the device.
  void upload(std::size_t slot, const MicroBatch& batch);
  gpt::BlockShape shape(std::size_t sequences, std::size_t length) const;
  kernels::Dropout dropout(const MicroBatch& batch, int unit, std::uint32_t site) const;
  kernels::Dropout embedding_dropout(const MicroBatch& batch) const;
  gpt::BlockDropout block_dropout(const MicroBatch& batch, int unit) const;

  void embed(std::size_t sequences, std::size_t length, const std::int32_t* tokens, std::size_t first_position, T* x);
  /// Runs all blocks and saves nothing, except keys and values if there is memory for them. Returns the last block's output.
  T* run_blocks(const MicroBatch& batch, const Flow& flow);
  /// The buffers of block i if nothing is saved: all blocks have the same ones, except for keys and values.
  gpt::BlockActivations<T> unkept(std::size_t i) const;
  /// Computes the final norm, logits and losses of x. With a scale, it also makes the head's backward pass: then the head's
  /// gradient is complete, and slot.gradient is that of x. (The gradient of the embedding as the head's weight is not: its
  /// backward adds to it.)
  void head(const Slot& slot, std::size_t rows, const T* x, const Direct& direct, std::optional<float> gradient_scale,
            double* loss);
  /// Sends the embeddings x past the other parts, if the head is not in this one.
  void skip(const MicroBatch& batch, const T* x, const Flow& flow);
  /// The gradient of the copied embedding: all but the head's weight, which has been written, is zero.
  void complete_copy(const Gradient& g);
  /// The backward of the final norm, from the gradient of its output in dx to that of x in dx.
  void norm_backward(std::size_t rows, const T* x, const Weights<T>& own, T* dx);
  /// Brings the embeddings of the last positions together, for logits_of().
  void keep_last_embedded(const MicroBatch& batch);
  /// Logits of `rows` rows of x, with `stride` elements from one row to the next, in memory of the host. A direct connection
  /// takes the first rows of embedded_.
  void logits_of(std::size_t rows, const T* x, std::size_t stride, float* out);
  /// dx: of the first block's input. direct_dx: the same through a direct connection, which is added; null if there is none.
  void embedding_backward(const Slot& slot, T* dx, const T* direct_dx);
  /// Computes the activations of block i again. out: as for block_forward.
  void recompute(const Slot& slot, const gpt::BlockShape& shape, const Weights<T>& weights, std::size_t i, T* out);
  /// The backward of block i, from dy to dx. If `again`, recomputes its activations first.
  void block_backward(const Slot& slot, const gpt::BlockShape& shape, std::size_t i, bool again, const T* dy, T* dx);

  static constexpr int embedding_unit = 0;
  int block_unit(std::size_t i) const { return 1 + static_cast<int>(part_.layers.begin + i); }
  int head_unit() const { return static_cast<int>(options_.n_layer) + 1; }
  /// The unit that has the head's weight: the head, the embedding, or its copy.
  int head_weight_unit() const {
    return !options_.tied ? head_unit() : options_.joins_gradients() ? embedding_unit : head_unit() + 1;
  }
  const UnitLayout& block_layout(std::size_t i) const { return units_[1 + part_.layers.begin + i]; }
  const UnitLayout& head_layout() const { return units_[options_.n_layer + 1]; }
  /// The copy has the places of the embedding.
  const UnitLayout& head_weight_layout() const { return options_.tied ? units_[embedding_unit] : head_layout(); }

  ModelOptions options_;
  Capacity capacity_;
  PartLayers part_;
  Segments segments_;
  bool decoding_;
  std::uint64_t dropout_key_;
  UnitAccess& access_;
  std::vector<UnitLayout> units_;  // of the whole model
  Head<T> head_;

  std::vector<Slot> slots_;            // without training one, which has no buffers of its own
  gpt::BlockActivations<T> unkept_{};  // overwritten by each block if nothing is saved
  std::vector<T*> keys_and_values_;    // by block: for the decoder
  T* final_ = nullptr;                 // [rows, C], the last block's output, in the head's part
  T* dx_ = nullptr;                    // [rows, C], gradient of the residual stream, in the embedding's part
  T* embedded_ = nullptr;              // [rows, C], the first block's input of a whole model with a direct connection,
                                       // if nothing is trained; the memory of the first slot, if it has one
  float *final_mean_ = nullptr, *final_rstd_ = nullptr, *losses_ = nullptr;  // [rows], in the head's part
  gpt::BlockScratch<T> scratch_{};
  Span<std::byte> head_scratch_;  // the memory of wide_a, wide_b and dh of scratch_
  ProductWorkspace product_workspace_;

  TokenBuffer tokens_;
  std::size_t decoded_ = 0;  // positions in the decoder's sequence
};

}  // namespace shoal::model
