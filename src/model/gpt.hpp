// SPDX-License-Identifier: Apache-2.0
// GPT-2 (Radford et al. 2019): embeddings, n_layer blocks, a final norm, and a head whose weight may be that of the token
// embedding.
#pragma once

#include <optional>
#include <vector>

#include "block.hpp"
#include "head.hpp"
#include "products.hpp"
#include "segments.hpp"
#include "shoal/model/model.hpp"
#include "token_buffer.hpp"

namespace shoal::model {

template <typename T>
class Gpt final : public Model, private Decoder {
 public:
  Gpt(const ModelOptions& options, const Capacity& capacity, std::uint64_t seed, Memory& memory, UnitAccess& access);

  std::size_t predictions(const MicroBatch& batch) const override { return batch.sequences * batch.length; }
  void forward(const MicroBatch& batch, float gradient_scale, double* loss) override;
  void backward() override;
  void evaluate(const MicroBatch& batch, double* loss) override;
  void logits(const MicroBatch& batch, Span<float> out) override;
  const std::vector<kernels::Product>& products() const override { return product_workspace_.products(); }
  std::vector<std::string> prepare() override {
    const bool backward = capacity_.training && options_.dropout == 0;
    return kernels::prepare_attention<T>(shape(capacity_.sequences, capacity_.length).attention(), backward);
  }
  Decoder* decoder() override { return decoding_ ? this : nullptr; }

 private:
  std::size_t positions() const override { return capacity_.length; }
  void prefill(Span<const std::int32_t> tokens, Span<float> logits) override;
  void decode(std::int32_t token, Span<float> logits) override;

  void take_activations(Memory& memory);
  void take_scratch(Memory& memory);
  std::vector<kernels::Product> products_of(BatchSize size, bool decoding) const;
  /// Sets the workspace of all matrix products until the next call.
  void set_product_workspace(const MicroBatch& batch);
  void check(const MicroBatch& batch) const;
  void check_targets(const MicroBatch& batch) const;
  /// Enqueues the copy of the batch's tokens to the device.
  void upload(const MicroBatch& batch);
  gpt::BlockShape shape(std::size_t sequences, std::size_t length) const;
  kernels::Dropout dropout(const MicroBatch& batch, int unit, std::uint32_t site) const;
  gpt::BlockDropout block_dropout(const MicroBatch& batch, int unit) const;

  void embed(std::size_t sequences, std::size_t length, const std::int32_t* tokens, std::size_t first_position, T* x);
  /// Runs all blocks and saves nothing, except keys and values if there is memory for them. Returns the last block's output.
  T* run_blocks(const MicroBatch& batch);
  /// The buffers of block i if nothing is saved: those of the first block, except for qkv.
  gpt::BlockActivations<T> unkept(std::size_t i) const;
  /// Final norm, logits and losses. With a scale also the head's backward: its gradient is complete then, and dx_ is that of
  /// x. (The gradient of a tied weight is not: the embedding's backward adds to it.)
  void head(std::size_t rows, const T* x, std::optional<float> gradient_scale, double* loss);
  /// The backward of the final norm, from the gradient of its output in dx_ to that of x in dx_.
  void norm_backward(std::size_t rows, const T* x, const Weights<T>& own);
  /// Logits of `rows` rows of x, with `stride` elements from one row to the next, in memory of the host.
  void logits_of(std::size_t rows, const T* x, std::size_t stride, float* out);
  void embedding_backward();
  /// Computes the activations of block i again, for forward's batch. out: as for block_forward.
  void recompute(const gpt::BlockShape& shape, const Weights<T>& weights, std::size_t i, T* out);
  /// The backward of block i. If `again`, recomputes its activations first.
  void block_backward(const gpt::BlockShape& shape, std::size_t i, bool again);

  int block_unit(std::size_t i) const { return 1 + static_cast<int>(i); }
  int head_unit() const { return static_cast<int>(units_.size()) - 1; }
  const UnitLayout& block_layout(std::size_t i) const { return units_[1 + i]; }
  const UnitLayout& head_layout() const { return units_.back(); }

  ModelOptions options_;
  Capacity capacity_;
  Segments segments_;
  bool decoding_;
  std::uint64_t dropout_key_;
  UnitAccess& access_;
  std::vector<UnitLayout> units_;
  Head<T> head_;

  std::vector<gpt::BlockActivations<T>> blocks_;
  T* final_ = nullptr;                                                       // [rows, C], the last block's output
  T* dx_ = nullptr;                                                          // [rows, C], gradient of the residual stream
  float *final_mean_ = nullptr, *final_rstd_ = nullptr, *losses_ = nullptr;  // [rows]
  gpt::BlockScratch<T> scratch_{};
  Span<std::byte> head_scratch_;  // the memory of wide_a, wide_b and dh of scratch_
  ProductWorkspace product_workspace_;

  MicroBatch kept_;  // the batch of the last forward; its tokens are in inputs_
  TokenBuffer tokens_;
  const std::int32_t *inputs_ = nullptr, *targets_ = nullptr;  // on the device, of the last batch
  std::size_t decoded_ = 0;                                    // positions in the decoder's sequence
};

}  // namespace shoal::model
