// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/quantization.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "shoal/base/trace.hpp"

namespace shoal::zero {

namespace {

kernels::QuantFormat format(const ZeroOptions& options, int bits) {
  const bool deepspeed = options.quant_rounding == "deepspeed";
  return {bits, options.quant_block, deepspeed ? kernels::QuantRounding::deepspeed : kernels::QuantRounding::accurate};
}

std::size_t elements_for(int rank, const Message& message, const std::vector<Holding>& holdings, int ranks) {
  std::size_t elements = 0;
  for (const Part& part : message.parts) {
    elements += block_of(part, holdings[static_cast<std::size_t>(part.unit)].elements, rank, ranks).size();
  }
  return elements;
}

}  // namespace

std::optional<kernels::QuantFormat> gather_format(const ZeroOptions& options) {
  return options.qwz == 0 ? std::nullopt : std::optional(format(options, options.qwz));
}

std::optional<QuantizedReduction> quantized_reduction(const ZeroOptions& options, int ranks_per_node) {
  if (options.qgz == 0) return std::nullopt;
  return QuantizedReduction{
      {format(options, options.qgz_node), format(options, options.qgz)}, ranks_per_node, options.quant_feedback};
}

void trace_error(const char* what, int unit, kernels::QuantError& error) {
  if (error.values > 0) {
    const trace::OnBehalfOf of(unit);
    trace::counter(std::string("quantization_error/") + what,
                   static_cast<std::uint64_t>(std::lround(1e6 * std::sqrt(error.errors / error.values))));
  }
  error = {};
}

GradientQuantizer::GradientQuantizer(const QuantizedReduction& how, const std::vector<Message>& messages,
                                     const std::vector<Holding>& holdings, const Placement& placement, Memory& memory)
    : how_(how), placement_(placement), errors_(messages.size()) {
  const int on_node = how.ranks_per_node, ranks = placement.ranks;
  for (const Message& message : messages) {
    std::size_t largest = 0, column = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::size_t elements = elements_for(rank, message, holdings, ranks);
      largest = std::max(largest, elements);
      if (rank % on_node == placement.rank % on_node) column += elements;
    }
    scratch_bytes_ = std::max(scratch_bytes_, comm::quantized_reduce_scratch_bytes(on_node, ranks / on_node, largest,
                                                                                   message.parts.size(), how.formats));
    residuals_.push_back(memory.take<float>(Kind::buffers, how.feedback ? column : 0, "quantization residuals"));
  }
}

comm::Request GradientQuantizer::reduce(std::size_t message, comm::Blocks blocks, DType dtype, Span<std::byte> scratch) {
  const comm::Hierarchy ranks{*placement_.group, *placement_.node, *placement_.across};
  return comm::quantized_reduce_scatter(ranks, std::move(blocks), dtype, how_.formats, scratch, {{}, residuals_[message]},
                                        &errors_[message]);
}

void GradientQuantizer::trace_errors(const std::vector<Message>& messages) {
  for (std::size_t m = 0; m < messages.size(); ++m) trace_error("gradients", messages[m].last_unit, errors_[m]);
}

void GradientQuantizer::forget_residuals() {
  for (const Span<float> residual : residuals_) std::fill(residual.begin(), residual.end(), 0.0F);
}

}  // namespace shoal::zero
