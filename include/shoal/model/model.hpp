// SPDX-License-Identifier: Apache-2.0
// The interface of models. To add one, write a pair of files like src/model/mlp.hpp and mlp.cpp, list them in CMake, and add
// a value to ModelKind and a row to src/model/registry.cpp. Unit 0 must be the embedding and the last one the head.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/base/names.hpp"
#include "shoal/kernels/products.hpp"
#include "shoal/model/part.hpp"
#include "shoal/model/unit.hpp"
#include "shoal/model/unit_access.hpp"

namespace shoal::model {

/// model.kind. A new model is a value and a row here, a row in src/model/registry.cpp and a pair of files.
enum class ModelKind : std::uint8_t { gpt, mlp };
inline constexpr std::array model_kinds = {Named{ModelKind::gpt, "gpt"}, Named{ModelKind::mlp, "mlp"}};
constexpr const auto& table_of(ModelKind) { return model_kinds; }

/// model.tied_gradient: where the two parts of a tied embedding's gradient, the head's and the embedding's own, are added.
enum class TiedGradient : std::uint8_t {
  joined,  ///< in each micro-batch: the head writes its part, and the embedding's backward adds to it
  apart,   ///< once a step: the head has a copy of the weight, with a gradient of its own (UnitLayout::copy_of)
};
inline constexpr std::array tied_gradients = {Named{TiedGradient::joined, "joined"}, Named{TiedGradient::apart, "apart"}};
constexpr const auto& table_of(TiedGradient) { return tied_gradients; }

struct ModelOptions {
  ModelKind kind = ModelKind::gpt;
  std::size_t n_layer = 4, n_head = 4, n_embd = 128;
  std::size_t n_inner = 0;       ///< width of the MLP; 0: 4 n_embd
  std::size_t block_size = 128;  ///< positions
  std::size_t vocab_size = 0;    ///< 0: that of the data
  double dropout = 0;
  bool tied = true;  ///< the head uses the token embedding as its weight
  TiedGradient tied_gradient = TiedGradient::joined;
  /// A direct connection from the embeddings to the output (Bengio, Ducharme, Vincent, Jauvin 2003, "A Neural Probabilistic
  /// Language Model", section 2): logits = head(x) + e direct', where e is the input of the first block.
  bool direct = false;
  double layer_norm_epsilon = 1e-5;
  std::string init_from;  ///< a Hugging Face directory or safetensors file; empty: random
  std::size_t inner() const { return n_inner == 0 ? 4 * n_embd : n_inner; }
  /// The head uses the embedding itself, or a copy of it.
  bool joins_gradients() const { return tied && tied_gradient == TiedGradient::joined; }
  bool has_copied_embedding() const { return tied && tied_gradient == TiedGradient::apart; }
  /// The embedding's part hands something to the head's part directly (Flow).
  bool has_skip_connection() const { return kind == ModelKind::gpt && direct; }
};

struct ActivationOptions {
  /// Activation checkpointing (Chen et al. 2016): the number of blocks in a segment. Forward saves the input of each segment
  /// and all activations of the last one, and backward computes the others again. 0, or more than there are blocks:
  /// everything is saved. automatic: round(sqrt(n_layer)), which would need the least memory if a block saved only its
  /// input. A block of the GPT saves about nine times the size of its input in addition: so 1 needs the least memory up to
  /// 21 blocks, and 2 up to about 60.
  std::int64_t checkpoint_interval = 0;
  static constexpr std::int64_t automatic = -1;
};

/// Sequences that are computed together.
struct MicroBatch {
  std::size_t sequences = 0, length = 0;
  /// [sequences, length]; token ids < vocab_size; memory of the host. Only the embedding's part reads inputs, and only the
  /// head's part targets.
  Span<const std::int32_t> inputs, targets;
  std::uint32_t step = 0;          ///< of the run, from 0; an input of dropout's random numbers
  std::uint32_t first_sample = 0;  ///< index of the first sequence in the global batch; another such input
};

/// What crosses the borders of a part: Model::border_elements() elements in the model's dtype, in the device's memory. This
/// memory is the caller's, so that the output of a part can be the input of the next one, or a message, without a copy. A
/// border that the part does not have is null: the embedding's part takes tokens, and the head's part makes losses.
///   forward, evaluation: in is the output of the part before, and out becomes that of this part.
///   backward: in is the gradient of this part's output, and out becomes that of its input; it may be the same memory.
/// Nothing writes to in, unless it is out.
/// With a skip connection (ModelOptions::has_skip_connection()) the embedding's part and the head's, if they are not the
/// same, hand as many elements to each other past the parts in between; elsewhere these two are null:
///   forward, evaluation: skip_out of the embedding's part becomes its output, and is skip_in of the head's part. In
///   forward, skip_out of the head's part becomes the gradient of its skip_in, as the head's backward follows there.
///   backward: skip_in of the embedding's part is that gradient.
struct Flow {
  const void* in = nullptr;
  void* out = nullptr;
  const void* skip_in = nullptr;
  void* skip_out = nullptr;
};

/// The largest batch and the operations for which a model is created.
struct Capacity {
  std::size_t sequences = 1, length = 1;
  bool training = true;   ///< false: no memory for backward
  bool decoding = false;  ///< memory for a Decoder, if the model has one (training has it if it saves all activations)
  std::int64_t checkpoint_interval = 0;  ///< as in ActivationOptions
  bool fused_gelu = false;               ///< GELU within matrix products (kernels/products.hpp), if the model has one
  std::size_t micro_batches = 1;         ///< that may be enqueued before the host waits: those of a step
  Part part = {};                        ///< what the model computes; no units: all of them
};

/// Generation with a cache of keys and values: one sequence, position after position. Without dropout.
class Decoder {
 public:
  virtual ~Decoder() = default;
  /// The most positions of a sequence.
  virtual std::size_t positions() const = 0;
  /// Begins a new sequence with these tokens at positions 0, 1, ... logits: [vocab_size], after the last token.
  virtual void prefill(Span<const std::int32_t> tokens, Span<float> logits) = 0;
  /// Appends a token at the next position. logits: after it.
  virtual void decode(std::int32_t token, Span<float> logits) = 0;
};

/// A model, or a part of one. Units have the numbers of the whole model, whatever the part.
class Model {
 public:
  virtual ~Model() = default;

  /// Number of losses of the batch: for each sequence its length in a language model, 1 in a classifier.
  virtual std::size_t predictions(const MicroBatch& batch) const = 0;
  /// Elements that cross a border for the batch.
  virtual std::size_t border_elements(const MicroBatch& batch) const = 0;

  /// Enqueues the forward pass. Saves what backward needs in a slot of the part, the first Part::whole_slots of which keep
  /// all activations. flow.in is not copied, and must stay until the slot's backward pass.
  /// The head's part: *loss, in the device's memory, becomes the sum of -ln p(target) over the batch's predictions, added in
  /// a fixed order. Backward computes the gradient of gradient_scale times this sum. This function also
  /// runs the head's backward, chunk by chunk, so the logits are never stored as a whole. The head's gradient is complete
  /// when it returns.
  virtual void forward(std::size_t slot, const MicroBatch& batch, const Flow& flow, float gradient_scale, double* loss) = 0;
  /// In the reverse order of the units before the head, writes each unit's gradient for the slot's batch and calls
  /// gradient_complete().
  virtual void backward(std::size_t slot, const Flow& flow) = 0;

  /// Computes the same sum without dropout, and saves nothing for backward. Writes over what the first slot keeps.
  virtual void evaluate(const MicroBatch& batch, const Flow& flow, double* loss) = 0;

  /// Logits after the last position of each sequence: [sequences, vocab_size], memory of the host, which waits for them.
  /// Without dropout. Of a whole model only, like the decoder.
  virtual void logits(const MicroBatch& batch, Span<float> out) = 0;

  /// The matrix products of all functions above with batches of the whole capacity, and those of the decoder.
  virtual const std::vector<kernels::Product>& products() const = 0;

  /// Lets kernels prepare what they need for batches of the whole capacity, before the first one. Returns a line for each
  /// that has to be computed in a slower way than it could be.
  virtual std::vector<std::string> prepare() { return {}; }

  /// nullptr if the model has none or was created without memory for it. Its sequence is lost when another function of the
  /// model is called.
  virtual Decoder* decoder() { return nullptr; }
};

/// The units of a model in the order of forward. vocab_size must be set.
std::vector<UnitLayout> layout(const ModelOptions& options);
/// The order in which a pass uses units. Each entry lists the units that are acquired together; it ends when all of them are
/// released. zero/gather_plan.hpp plans gathers from it.
using UseOrder = std::vector<std::vector<int>>;
struct UseOrders {
  UseOrder forward;               ///< includes the head's backward; also the order of evaluate()
  UseOrder backward;              ///< of a slot that keeps all activations; empty if the capacity is not for training
  UseOrder recomputing_backward;  ///< of a slot that keeps the inputs of segments
};
/// Those of the capacity's part.
UseOrders use_orders(const ModelOptions& options, const Capacity& capacity);
/// The order of forward and backward of the part's first slot, one after the other, or that of evaluate() if the capacity is
/// not for training.
UseOrder use_order(const ModelOptions& options, const Capacity& capacity);
/// Returns a sentence for each condition that the options do not meet, with the names and values of the options.
std::vector<std::string> problems(const ModelOptions& options);
/// Floating-point operations of forward and backward for one token: the sum over all units (costs.hpp). For the GPT: 6 N + 6
/// n_layer n_embd (T + 1), where N is the number of weights in matrix products, including the head and the direct
/// connection. A token attends to itself and to those before it, (T + 1) / 2 on average.
double flops_per_token(const ModelOptions& options);
/// Number of the model's parameters, of all units.
std::size_t parameter_count(const ModelOptions& options);

/// If `memory` only counts, the model must not be run. `seed` determines dropout's random numbers. fail() if a tied head
/// would be in another part than the embedding, or its part would have several slots: head and embedding write one gradient.
std::unique_ptr<Model> make(const ModelOptions& options, DType dtype, const Capacity& capacity, std::uint64_t seed,
                            Memory& memory, UnitAccess& access);

}  // namespace shoal::model
