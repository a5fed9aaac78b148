// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/quantization.hpp"

#include <algorithm>
#include <cmath>

#include "shoal/base/error.hpp"
#include "shoal/base/trace.hpp"

namespace shoal::zero {

namespace {

kernels::QuantFormat format(const ZeroOptions& options, int bits) {
  return {bits, options.quant_block, options.quant_rounding};
}

std::size_t elements_for(int rank, const Bucket& bucket, const std::vector<ShardLayout>& layouts, int ranks) {
  std::size_t elements = 0;
  for (const Part& part : bucket.parts) {
    elements += block_of(part, layouts[static_cast<std::size_t>(part.unit)].elements, rank, ranks).size();
  }
  return elements;
}

/// FNV-1a over the parts of all buckets.
std::uint64_t hash_of(const std::vector<Bucket>& buckets) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  const auto add = [&](std::uint64_t value) { hash = (hash ^ value) * 0x100000001b3U; };
  for (const Bucket& bucket : buckets) {
    add(bucket.parts.size());
    for (const Part& part : bucket.parts) {
      add(static_cast<std::uint64_t>(part.unit));
      add(part.sub.begin);
      add(part.sub.end);
    }
  }
  return hash;
}

}  // namespace

std::optional<kernels::QuantFormat> gather_format(const ZeroOptions& options) {
  return options.qwz == 0 ? std::nullopt : std::optional(format(options, options.qwz));
}

std::unique_ptr<comm::Reducer> make_gatherer(const ZeroOptions& options, comm::Collectives collectives,
                                             const RankGroups& groups) {
  const auto how = gather_format(options);
  if (!how) return comm::make_reducer(collectives, groups.ranks, groups.group);
  return comm::make_quantized_reducer({groups.ranks, 1, groups.group, nullptr, nullptr}, {*how, *how});
}

std::optional<QuantizedReduction> quantized_reduction(const ZeroOptions& options, int ranks_per_node) {
  if (options.qgz == 0) return std::nullopt;
  return QuantizedReduction{
      {format(options, options.qgz_node), format(options, options.qgz)}, ranks_per_node, options.quant_feedback};
}

std::unique_ptr<comm::Reducer> make_gradient_reducer(const std::optional<QuantizedReduction>& quantized,
                                                     comm::Collectives collectives, const RankGroups& groups) {
  if (!quantized) return comm::make_reducer(collectives, groups.ranks, groups.group);
  return comm::make_quantized_reducer({groups.ranks, quantized->ranks_per_node, groups.group, groups.node, groups.across},
                                      quantized->formats);
}

void trace_error(const char* what, int unit, kernels::QuantError& error) {
  if (error.values > 0) {
    const trace::OnBehalfOf of(unit);
    trace::counter(std::string("quantization_error/") + what,
                   static_cast<std::uint64_t>(std::lround(1e6 * std::sqrt(error.errors / error.values))));
  }
  error = {};
}

GradientQuantState::GradientQuantState(const QuantizedReduction& how, const std::vector<Bucket>& buckets,
                                       const std::vector<ShardLayout>& layouts, const RankGroups& groups, Memory& memory)
    : groups_(groups), residuals_(buckets.size()), errors_(buckets.size()) {
  if (how.feedback && groups.ranks > how.ranks_per_node) take_residuals(how.ranks_per_node, buckets, layouts, memory);
}

void GradientQuantState::take_residuals(int ranks_per_node, const std::vector<Bucket>& buckets,
                                        const std::vector<ShardLayout>& layouts, Memory& memory) {
  const int on_node = ranks_per_node, ranks = groups_.ranks;
  columns_.resize(static_cast<std::size_t>(ranks));
  std::vector<std::size_t> own;  // by bucket
  for (const Bucket& bucket : buckets) {
    std::vector<std::size_t> of_place(
        static_cast<std::size_t>(on_node));  // by local rank: ranks with the same one send the same blocks
    for (int rank = 0; rank < ranks; ++rank) {
      of_place[static_cast<std::size_t>(rank % on_node)] += elements_for(rank, bucket, layouts, ranks);
    }
    for (int rank = 0; rank < ranks; ++rank) {
      columns_[static_cast<std::size_t>(rank)] += of_place[static_cast<std::size_t>(rank % on_node)];
    }
    own.push_back(of_place[static_cast<std::size_t>(groups_.rank % on_node)]);
  }
  layout_ = text(ranks, " ranks, ", on_node, " per node, ", buckets.size(), " messages (", std::hex, hash_of(buckets), ")");
  residual_ = memory.take<float>(Kind::buffers, columns_[static_cast<std::size_t>(groups_.rank)], "quantization residuals");
  std::size_t before = 0;
  for (std::size_t m = 0; m < own.size() && !memory.counting(); ++m) {
    residuals_[m] = residual_.subspan(before, own[m]);
    before += own[m];
  }
}

comm::QuantState GradientQuantState::of(std::size_t bucket) {
  return errors_.empty() ? comm::QuantState{} : comm::QuantState{residuals_[bucket], &errors_[bucket]};
}

void GradientQuantState::trace_errors(const std::vector<Bucket>& buckets) {
  for (std::size_t m = 0; m < errors_.size(); ++m) trace_error("gradients", buckets[m].last_unit, errors_[m]);
}

std::vector<NamedSlice> GradientQuantState::residual_slices() const {
  std::vector<NamedSlice> slices;
  for (std::size_t rank = 0; rank < columns_.size(); ++rank) {
    const bool own = rank == static_cast<std::size_t>(groups_.rank);
    slices.push_back({text("/residuals/", rank),
                      {columns_[rank]},
                      own ? Range{0, columns_[rank]} : Range{},
                      own ? residual_ : Span<float>()});
  }
  return slices;
}

}  // namespace shoal::zero
