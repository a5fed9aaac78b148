// SPDX-License-Identifier: Apache-2.0
// ZeRO++ (Wang et al. 2023, arXiv 2306.10209): what ZeRO sends in 8 or 4 bits. qwZ (section 3.1): parameters, where they are
// gathered from all ranks; what comes from hpZ's neighbours was quantized before. qgZ (section 3.3): gradients, in an
// all-to-all within nodes and another one across them. The collectives are comm/quantized.hpp's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/base/state.hpp"
#include "shoal/comm/quantized.hpp"
#include "shoal/zero/buckets.hpp"
#include "shoal/zero/options.hpp"
#include "shoal/zero/stages.hpp"

namespace shoal::zero {

/// How parameters are gathered; none: as they are.
std::optional<kernels::QuantFormat> gather_format(const ZeroOptions& options);

struct QuantizedReduction {
  comm::ReduceFormats formats;
  int ranks_per_node = 1;
  bool feedback = false;
};
/// How gradients are reduced; none: as they are.
std::optional<QuantizedReduction> quantized_reduction(const ZeroOptions& options, int ranks_per_node);

/// Relative rms errors as counters in the trace, in millionths: "quantization_error/WHAT", of a unit.
void trace_error(const char* what, int unit, kernels::QuantError& error);

/// qgZ's side of the gradients' messages.
class GradientQuantizer {
 public:
  /// Takes memory for residuals: with feedback, of what this rank sends across nodes (fp32), where there are several.
  GradientQuantizer(const QuantizedReduction& how, const std::vector<Bucket>& buckets,
                    const std::vector<ShardLayout>& layouts, const RankGroups& groups, Memory& memory);

  /// That any of the messages needs.
  std::size_t scratch_bytes() const { return scratch_bytes_; }
  /// blocks: of the bucket. Afterwards this rank's block is the sum over ranks.
  comm::Request reduce(std::size_t bucket, comm::Blocks blocks, DType dtype, Span<std::byte> scratch);
  /// After the step: its errors into the trace.
  void trace_errors(const std::vector<Bucket>& buckets);
  /// For a checkpoint: every rank's residuals as a tensor of their own, "/residuals/RANK", of which this rank holds its own
  /// and of the others nothing. They belong to how gradients are cut: residual_layout() names it, and they can be read again
  /// where it is the same. Without residuals both are empty.
  std::vector<NamedSlice> residual_slices() const;
  const std::string& residual_layout() const { return layout_; }

 private:
  void take_residuals(const std::vector<Bucket>& buckets, const std::vector<ShardLayout>& layouts, Memory& memory);

  QuantizedReduction how_;
  RankGroups groups_;
  std::size_t scratch_bytes_ = 0;
  std::vector<std::size_t> columns_;  // by rank: elements that it sends across nodes; empty without residuals
  std::string layout_;
  Span<float> residual_;                     // of all messages together
  std::vector<Span<float>> residuals_;       // by message
  std::vector<kernels::QuantError> errors_;  // by message, of this step
};

}  // namespace shoal::zero
