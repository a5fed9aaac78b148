// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/quantization.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "shoal/base/error.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/kernels/bytes.hpp"
#include "shoal/kernels/outer.hpp"

namespace shoal::zero {

namespace {

kernels::QuantFormat format(const ZeroOptions& options, int bits) {
  return {bits, options.quant_block, options.quant_rounding};
}

std::size_t elements_for(int rank, const Bucket& bucket, const std::vector<ShardLayout>& layouts, int ranks) {
  std::size_t elements = 0;
  for (const BucketPiece& part : bucket.parts) {
    elements += block_of(part, layouts[static_cast<std::size_t>(part.unit)].elements, rank, ranks).size();
  }
  return elements;
}

/// A message's errors as device::Cells have them. Kernels see each two doubles as a QuantError.
constexpr std::size_t doubles_per_message = 2 * kernels::quant_error_parts;
static_assert(sizeof(kernels::QuantError) == 2 * sizeof(double) && std::is_standard_layout_v<kernels::QuantError>);
static_assert(offsetof(kernels::QuantError, values) == 0 && offsetof(kernels::QuantError, errors) == sizeof(double));

/// FNV-1a over the parts of all buckets.
std::uint64_t hash_of(const std::vector<Bucket>& buckets) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  const auto add = [&](std::uint64_t value) { hash = (hash ^ value) * 0x100000001b3U; };
  for (const Bucket& bucket : buckets) {
    add(bucket.parts.size());
    for (const BucketPiece& part : bucket.parts) {
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

QuantErrors::QuantErrors(Memory& memory, std::size_t messages)
    : cells_(memory, messages * doubles_per_message, "quantization errors") {}

kernels::QuantError* QuantErrors::of(std::size_t message) const {
  if (cells_.size() == 0) return nullptr;
  return reinterpret_cast<kernels::QuantError*>(cells_.cell(message * doubles_per_message));
}

void QuantErrors::fetch() {
  if (cells_.size() == 0 || !trace::on(trace::Level::steps)) return;
  cells_.fetch();
  // A double is zero if both halves of its bits are those of a float's zero.
  kernels::fill(cells_.cells().size_bytes() / sizeof(float), 0.0F, reinterpret_cast<float*>(cells_.cells().data()));
  fetched_ = true;
}

void QuantErrors::write_counters(const char* what, const std::function<int(std::size_t message)>& unit_of) {
  if (!std::exchange(fetched_, false)) return;
  for (std::size_t m = 0; m < cells_.size() / doubles_per_message; ++m) {
    const Span<const double> parts = cells_.values().subspan(m * doubles_per_message, doubles_per_message);
    kernels::QuantError error;
    for (std::size_t k = 0; k < parts.size(); k += 2) error += {parts[k], parts[k + 1]};
    if (error.values > 0) {
      const trace::OnBehalfOf of(unit_of(m));
      trace::counter(std::string("quantization_error/") + what,
                     static_cast<std::uint64_t>(std::lround(1e6 * std::sqrt(error.errors / error.values))));
    }
  }
}

GradientQuantState::GradientQuantState(const QuantizedReduction& how, const std::vector<Bucket>& buckets,
                                       const std::vector<ShardLayout>& layouts, const RankGroups& groups, Memory& memory)
    : groups_(groups), residuals_(buckets.size()) {
  if (groups.ranks > 1) errors_ = QuantErrors(memory, buckets.size());
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
  own_ = static_cast<std::size_t>(groups_.rank);
  const std::string of_stage = text(ranks, " ranks, ", on_node, " per node");
  layout_ = text(of_stage, ", ", buckets.size(), " messages (", std::hex, hash_of(buckets), ")");
  residual_ = memory.take<float>(Kind::buffers, columns_[own_], "quantization residuals");
  std::size_t before = 0;
  for (std::size_t m = 0; m < own.size() && !memory.counting(); ++m) {
    residuals_[m] = residual_.subspan(before, own[m]);
    before += own[m];
  }
  if (groups_.model != nullptr && groups_.model->size() > 1) share_layout(of_stage, hash_of(buckets));
}

/// All ranks make the tensors of all ranks in a checkpoint, so each needs the columns and the layout of every stage, of
/// which a stage knows its own.
void GradientQuantState::share_layout(const std::string& of_stage, std::uint64_t hash) {
  const auto count = static_cast<std::size_t>(groups_.model->size()),
             stage = static_cast<std::size_t>(groups_.model->rank());
  const std::size_t ranks = columns_.size();
  std::vector<std::uint64_t> columns(count * ranks, 0), hashes(count, 0);
  std::copy(columns_.begin(), columns_.end(), columns.begin() + static_cast<std::ptrdiff_t>(stage * ranks));
  hashes[stage] = hash;
  for (auto* const known_to_one : {&columns, &hashes}) {
    groups_.model->all_reduce(Span<std::uint64_t>(*known_to_one), comm::Reduce::sum).wait();
  }
  own_ += stage * ranks;
  columns_.assign(columns.begin(), columns.end());
  layout_ = text(count, " stages of ", of_stage, ", messages");
  for (const std::uint64_t of_messages : hashes) layout_ += text(" ", std::hex, of_messages);
}

comm::QuantState GradientQuantState::of(std::size_t bucket) {
  return residuals_.empty() ? comm::QuantState{} : comm::QuantState{residuals_[bucket], errors_.of(bucket)};
}

void GradientQuantState::trace_errors(const std::vector<Bucket>& buckets) {
  errors_.write_counters("gradients", [&](std::size_t bucket) { return buckets[bucket].last_unit; });
}

void GradientQuantState::scale_residuals(double factor) {
  if (!residual_.empty()) kernels::divide(residual_.size(), static_cast<float>(1 / factor), residual_.data());
}

void GradientQuantState::reset_residuals() {
  if (!residual_.empty()) kernels::fill(residual_.size(), 0.0F, residual_.data());
}

std::vector<NamedSlice> GradientQuantState::residual_slices() const {
  std::vector<NamedSlice> slices;
  for (std::size_t rank = 0; rank < columns_.size(); ++rank) {
    const bool own = rank == own_;
    slices.push_back({text("/residuals/", rank),
                      {columns_[rank]},
                      own ? Range{0, columns_[rank]} : Range{},
                      own ? residual_ : Span<float>()});
  }
  return slices;
}

}  // namespace shoal::zero
