// SPDX-License-Identifier: Apache-2.0
// ZeRO++ (Wang et al. 2023, arXiv 2306.10209): messages in 8 or 4 bits. qwZ (section 3.1) quantizes parameters that are
// gathered from all ranks; hpZ's second partition stores the result and gathers it as it is. qgZ (section 3.3) quantizes
// gradients, in an all-to-all within nodes and another one across nodes. comm/quantized.hpp has the collectives.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/base/state.hpp"
#include "shoal/comm/reducer.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/zero/buckets.hpp"
#include "shoal/zero/options.hpp"
#include "shoal/zero/quantized_formats.hpp"
#include "shoal/zero/stages.hpp"

namespace shoal::zero {

/// Gathers units over all ranks: quantized with qwZ, otherwise by `collectives`.
std::unique_ptr<comm::Reducer> make_gatherer(const ZeroOptions& options, comm::Collectives collectives,
                                             const RankGroups& groups);

/// Reduces gradients: quantized if `quantized` has a value (qgZ), otherwise by `collectives`.
std::unique_ptr<comm::Reducer> make_gradient_reducer(const std::optional<QuantizedReduction>& quantized,
                                                     comm::Collectives collectives, const RankGroups& groups);

/// The quantization errors of several messages since the last fetch(), for the trace. Kernels add them up on the device.
class QuantErrors {
 public:
  QuantErrors() = default;  ///< of no messages
  QuantErrors(Memory& memory, std::size_t messages);

  /// The kernels::quant_error_parts parts to which the message's errors are added, on the device; null if there are no
  /// messages.
  kernels::QuantError* of(std::size_t message) const;
  /// Enqueues a copy of all errors to the host, after which they are set to zero. Does nothing unless counters are traced.
  void fetch();
  /// After the host has waited for an event behind fetch(): writes the relative rms error of each message, in millionths,
  /// into the trace as the counter "quantization_error/WHAT" of the unit unit_of(message). Does nothing if nothing was
  /// fetched since the last call.
  void write_counters(const char* what, const std::function<int(std::size_t message)>& unit_of);

 private:
  device::Cells cells_;  // two for each part: QuantError::values and QuantError::errors
  bool fetched_ = false;
};

/// The state of qgZ for each gradient bucket: its error-feedback residual, and the errors of this step. Empty without qgZ.
class GradientQuantState {
 public:
  GradientQuantState() = default;
  /// Takes memory for the errors if there are several ranks, and for residuals if feedback is on and there are several
  /// nodes: one float for each element that this rank sends to other nodes. Then, in a pipeline, it is collective over
  /// groups.model.
  GradientQuantState(const QuantizedReduction& how, const std::vector<Bucket>& buckets,
                     const std::vector<ShardLayout>& layouts, const RankGroups& groups, Memory& memory);

  comm::QuantState of(std::size_t bucket);
  /// Enqueues a copy of this step's errors to the host. Called after the last round.
  void fetch_errors() { errors_.fetch(); }
  /// Writes them into the trace. Called after the host has waited for an event behind fetch_errors().
  void trace_errors(const std::vector<Bucket>& buckets);
  /// For checkpoints: each rank's residuals are a tensor of their own, "/residuals/RANK", which no other rank holds any part
  /// of. The ranks of all stages of a pipeline are numbered stage by stage. Residuals depend on how gradients are cut into
  /// buckets, which residual_layout() identifies, the same on all ranks. They can be read only if it is the same as when
  /// they were written. Both are empty without residuals.
  std::vector<NamedSlice> residual_slices() const;
  /// To be called when all later gradients are multiplied by this factor.
  void scale_residuals(double factor);
  /// To be called when the step's gradient is discarded: sets the residuals to zero. They are errors of that gradient now,
  /// and those before it would be known only with a copy of the same size.
  void reset_residuals();
  const std::string& residual_layout() const { return layout_; }

 private:
  void take_residuals(int ranks_per_node, const std::vector<Bucket>& buckets, const std::vector<ShardLayout>& layouts,
                      Memory& memory);
  void share_layout(const std::string& of_stage, std::uint64_t hash);

  RankGroups groups_;
  std::size_t own_ = 0;               // this rank's index in columns_
  std::vector<std::size_t> columns_;  // by rank: elements that it sends to other nodes; empty without residuals
  std::string layout_;
  Span<float> residual_;                // of all buckets together
  std::vector<Span<float>> residuals_;  // by bucket
  QuantErrors errors_;                  // by bucket, of this step
};

}  // namespace shoal::zero
