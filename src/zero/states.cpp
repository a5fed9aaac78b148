// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/states.hpp"

#include <algorithm>
#include <cmath>

#include "shoal/comm/tree_reduce.hpp"
#include "shoal/kernels/storage.hpp"
#include "shoal/zero/partition.hpp"

namespace shoal::zero {

namespace {

/// Neighbouring tensors that share one weight decay, as ranges of the flat buffer.
struct Segment {
  Range range;
  bool decay;
};

std::vector<Segment> segments(const model::UnitLayout& unit, bool decay_1d) {
  std::vector<Segment> result;
  for (const model::Parameter& p : unit.parameters) {
    const bool decay = decay_1d || !p.is_vector();
    if (!result.empty() && result.back().decay == decay) {
      result.back().range.end = p.range().end;
    } else {
      result.push_back({p.range(), decay});
    }
  }
  return result;
}

}  // namespace

States::States(const std::vector<model::UnitLayout>& units, DType dtype, const std::vector<std::string>& moments,
               const Placement& placement, Memory& memory)
    : units_(units), dtype_(dtype), placement_(placement), moment_names_(moments), moments_(moments.size()) {
  const bool rounded = dtype != DType::f32;
  for (const auto& unit : units_) {
    if (rounded) parameters_.push_back(memory.take<bf16>(Kind::parameters, unit.elements, "parameters"));
    master_.push_back(memory.take<float>(rounded ? Kind::master : Kind::parameters, unit.elements,
                                         rounded ? "master parameters" : "parameters"));
    for (auto& moment : moments_) moment.push_back(memory.take<float>(Kind::moments, unit.elements, "moments"));
  }
}

const void* States::parameters(int unit) const {
  const auto u = static_cast<std::size_t>(unit);
  return dtype_ == DType::f32 ? static_cast<const void*>(master_[u].data()) : parameters_[u].data();
}

Span<float> States::master(int unit) const { return master_[static_cast<std::size_t>(unit)]; }

void States::initialize(std::uint64_t seed) {
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const auto shard_span = [&](int rank) {
      const Range shard = shard_of(units_[u].elements, rank, placement_.ranks);
      return master_[u].subspan(shard.begin, shard.size());
    };
    model::initialize(units_[u], seed, shard_of(units_[u].elements, placement_.rank, placement_.ranks),
                      shard_span(placement_.rank));
    if (placement_.ranks > 1) {
      comm::Blocks blocks;
      for (int r = 0; r < placement_.ranks; ++r) blocks.push_back({comm::bytes_of(shard_span(r))});
      std::vector<std::byte> scratch(comm::tree_scratch_bytes(placement_.ranks, units_[u].elements * sizeof(float)));
      comm::tree_all_gather(*placement_.group, blocks, scratch).wait();
    }
  }
  refresh();
}

void States::refresh() {
  for (std::size_t u = 0; u < units_.size(); ++u) round_to_parameters(static_cast<int>(u), {0, units_[u].elements});
}

void States::round_to_parameters(int unit, Range range) {
  if (dtype_ == DType::f32) return;
  const auto u = static_cast<std::size_t>(unit);
  kernels::narrow(dtype_, range.size(), master_[u].data() + range.begin, parameters_[u].data() + range.begin);
}

void States::step(int unit, Span<const float> gradient, const optim::Optimizer& optimizer,
                  const optim::Optimizer::Step& step, bool decay_1d) {
  const auto u = static_cast<std::size_t>(unit);
  for (const Segment& segment : segments(units_[u], decay_1d)) {
    const Range r = segment.range;
    optim::Slice slice;
    slice.gradient = gradient.subspan(r.begin, r.size());
    slice.master = master_[u].subspan(r.begin, r.size());
    if (dtype_ != DType::f32) slice.parameters = comm::bytes_of(parameters_[u].subspan(r.begin, r.size()));
    slice.dtype = dtype_;
    for (const auto& moment : moments_) slice.moments.push_back(moment[u].subspan(r.begin, r.size()));
    slice.decay = segment.decay;
    optimizer.step(slice, step);
  }
}

int States::first_not_finite() const {
  for (std::size_t u = 0; u < master_.size(); ++u) {
    const auto finite = [](float value) { return std::isfinite(value); };
    if (!std::all_of(master_[u].begin(), master_[u].end(), finite)) return static_cast<int>(u);
  }
  return -1;
}

std::vector<NamedSlice> States::slices(const std::string& prefix, const std::vector<Span<float>>& flat, Which which) const {
  std::vector<NamedSlice> result;
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const Range kept = which == Which::whole ? Range{0, units_[u].elements}
                                             : shard_of(units_[u].elements, placement_.rank, placement_.ranks);
    for (const model::Parameter& p : units_[u].parameters) {
      Range part = intersection(kept, p.range());
      if (part.empty()) part = {p.offset, p.offset};
      result.push_back({prefix + p.name,
                        p.shape,
                        {part.begin - p.offset, part.end - p.offset},
                        flat[u].subspan(part.begin, part.size())});
    }
  }
  return result;
}

std::vector<NamedSlice> States::parameter_slices(Which which) const { return slices("/parameters/", master_, which); }

std::vector<NamedSlice> States::moment_slices(Which which) const {
  std::vector<NamedSlice> result;
  for (std::size_t i = 0; i < moments_.size(); ++i) {
    for (NamedSlice& slice : slices("/moments/" + moment_names_[i] + "/", moments_[i], which)) {
      result.push_back(std::move(slice));
    }
  }
  return result;
}

}  // namespace shoal::zero
