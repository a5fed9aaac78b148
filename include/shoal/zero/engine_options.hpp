// SPDX-License-Identifier: Apache-2.0
// What an engine is made of (zero/engine.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/comm/options.hpp"
#include "shoal/model/model.hpp"
#include "shoal/model/part.hpp"
#include "shoal/optim/optimizer.hpp"
#include "shoal/zero/accumulation.hpp"
#include "shoal/zero/options.hpp"
#include "shoal/zero/quantized_formats.hpp"

namespace shoal::zero {

/// Which squares of each micro-batch's gradient are summed.
enum class Squares : std::uint8_t {
  none,
  plain,     ///< sums of squares
  weighted,  ///< weighted sums over a sample of elements: [Note: weights of a sample] in src/zero/sampled_weights.hpp
};

struct GradientOptions {
  std::size_t bucket_elements = 6'250'000;  ///< of the largest bucket
  bool overlap = true;                      ///< backward goes on while buckets are reduced
  DType dtype = DType::f32;                 ///< in which gradients are kept, summed and sent
  comm::Collectives collectives = comm::Collectives::reproducible;
  Squares squares = Squares::none;
  std::optional<QuantizedReduction> quantized = std::nullopt;  ///< qgZ
  bool sends_shards = false;  ///< the caller sends Gradients::shard() (sync/gradient_sum.hpp)
};

struct PassOfPart {
  std::size_t part = 0;   ///< index in EngineOptions::parts
  bool backward = false;  ///< the backward pass of a turn; otherwise its forward pass
  bool whole = true;      ///< the turn keeps all activations (model::Part::whole_slots)
  bool operator==(const PassOfPart&) const = default;
};
/// The passes of a training step, in their order.
using StepOrder = std::vector<PassOfPart>;

struct EngineOptions {
  model::ModelOptions model;  ///< vocab_size must be set
  DType dtype = DType::f32;
  model::Capacity capacity;  ///< training = false: parameters and forward only
  optim::OptimizerOptions optimizer;
  ZeroOptions zero;
  OffloadOptions offload;
  GradientOptions gradients;
  std::size_t micro_batches = 1;  ///< of a step, over all ranks of the group
  double grad_clip = 1.0;         ///< largest norm; 0: gradients are not clipped
  std::uint64_t seed = 1;
  std::vector<model::Part> parts;  ///< of the model, first to last, that this rank computes; none: all units as one part
  /// With parts: the passes of every training step, which forward() and backward() must follow; stage 3 plans the gathers of
  /// a step from it. None: any order that slots allow; each pass gathers for itself.
  StepOrder order = {};
  bool sends_masters = false;    ///< the caller sends masters (sync/average.hpp)
  Images images = Images::none;  ///< that a plan of the memory counts
};

/// EngineOptions::parts; if there are none, the one that has all units.
std::vector<model::Part> parts_of(const EngineOptions& options);
/// The order in which a group of so many ranks adds its gradients.
AccumulationPlan accumulation_of(const EngineOptions& options, int ranks);

}  // namespace shoal::zero
