// SPDX-License-Identifier: Apache-2.0
// What the rest of the program knows of a model.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/base/names.hpp"
#include "shoal/model/unit.hpp"
#include "shoal/model/unit_access.hpp"

namespace shoal::model {

/// model.kind. A new model is a value and a row here, a row in src/model/registry.cpp and a pair of files.
enum class ModelKind : std::uint8_t { gpt, mlp };
inline constexpr std::array model_kinds = {Named{ModelKind::gpt, "gpt"}, Named{ModelKind::mlp, "mlp"}};
constexpr const auto& table_of(ModelKind) { return model_kinds; }

struct ModelOptions {
  ModelKind kind = ModelKind::gpt;
  std::size_t n_layer = 4, n_head = 4, n_embd = 128;
  std::size_t n_inner = 0;       ///< width of the MLP; 0: 4 n_embd
  std::size_t block_size = 128;  ///< positions
  std::size_t vocab_size = 0;    ///< 0: as the data has it
  double dropout = 0;
  bool tied = true;  ///< the head is the token embedding
  double layer_norm_epsilon = 1e-5;
  std::string init_from;  ///< a Hugging Face directory or safetensors file; empty: random
  std::size_t inner() const { return n_inner == 0 ? 4 * n_embd : n_inner; }
};

struct ActivationOptions {
  /// Blocks between kept activations; what lies between is computed again in backward (Chen et al. 2016). 0: all are kept;
  /// more blocks than there are: the same. automatic: the root of n_layer, rounded, which would take the least memory if a
  /// block kept nothing but its input. The GPT's keep nine times as much: there 1 takes least up to 21 blocks, 2 up to
  /// about 60.
  std::int64_t checkpoint_interval = 0;
  static constexpr std::int64_t automatic = -1;
};

/// Sequences that go through the model together.
struct MicroBatch {
  std::size_t sequences = 0, length = 0;
  Span<const std::int32_t> inputs, targets;  ///< [sequences, length]; token ids < vocab_size
  std::uint32_t step = 0;                    ///< of the run, from 0: keys dropout
  std::uint32_t first_sample = 0;            ///< place of the first sequence in the global batch: keys dropout
};

/// How much one instance is made for.
struct Capacity {
  std::size_t sequences = 1, length = 1;
  bool training = true;                  ///< false: no memory for backward
  bool decoding = false;                 ///< memory for a Decoder, where the model has one (training that keeps all has it)
  std::int64_t checkpoint_interval = 0;  ///< as in ActivationOptions
};

/// Generation with keys and values kept: one sequence, position after position. Without dropout.
class Decoder {
 public:
  virtual ~Decoder() = default;
  /// Positions that a sequence may have.
  virtual std::size_t positions() const = 0;
  /// Starts over with tokens as positions 0, 1, ...; logits [vocab_size] are those after the last one.
  virtual void prefill(Span<const std::int32_t> tokens, Span<float> logits) = 0;
  /// The next position.
  virtual void decode(std::int32_t token, Span<float> logits) = 0;
};

class Model {
 public:
  virtual ~Model() = default;

  /// Losses that one sequence contributes: its length for a language model, 1 for a classifier.
  virtual std::size_t predictions(const MicroBatch& batch) const = 0;

  /// Sum over the batch's predictions of -ln p(target), in double, added in a fixed order. Keeps what backward needs. The
  /// gradient of gradient_scale x this sum is what backward will compute; the head's part of it is made here, chunk by
  /// chunk, so that the logits are never stored whole.
  virtual double forward(const MicroBatch& batch, float gradient_scale) = 0;
  /// Units in reverse order: writes each unit's gradient and calls gradient_complete().
  virtual void backward() = 0;

  /// The same sum without anything kept and without dropout.
  virtual double evaluate(const MicroBatch& batch) = 0;

  /// Logits after the last position of each sequence: [sequences, vocab_size]. Without dropout.
  virtual void logits(const MicroBatch& batch, Span<float> out) = 0;

  /// nullptr where the model has none, or was made without memory for it. Its sequence is lost when another function of the
  /// model runs.
  virtual Decoder* decoder() { return nullptr; }
};

/// The units of a model, in the order of forward; needs no memory. vocab_size must be set.
std::vector<UnitLayout> layout(const ModelOptions& options);
/// The units that are acquired together, first to last: one visit ends when all of its units are released. Of forward and
/// backward where the capacity is for training, of evaluate() otherwise. Whoever keeps the parameters plans by it.
std::vector<std::vector<int>> use_order(const ModelOptions& options, const Capacity& capacity);
/// Every unmet condition on the options as a sentence that names the options and their values.
std::vector<std::string> problems(const ModelOptions& options);
/// Floating-point operations of one token of forward and backward: 6 N + 6 n_layer n_embd (T + 1) for the GPT, N the weights
/// that take part in matrix products (the head included). A token attends to itself and those before, (T + 1) / 2 on
/// average: what a causal model need not compute does not count, so that no processor can seem faster than it is.
double flops_per_token(const ModelOptions& options);

/// memory may be counting (then the model must not be run). Seeds of dropout come from `seed`.
std::unique_ptr<Model> make(const ModelOptions& options, DType dtype, const Capacity& capacity, std::uint64_t seed,
                            Memory& memory, UnitAccess& access);

}  // namespace shoal::model
