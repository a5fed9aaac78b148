// SPDX-License-Identifier: Apache-2.0
#include "zero/partial_sums.hpp"

#include "shoal/kernels/bytes.hpp"
#include "shoal/kernels/storage.hpp"

namespace shoal::zero {

PartialSums::PartialSums(const std::vector<ShardLayout>& layouts, const AccumulationPlan& accumulation, DType dtype,
                         bool in_place, Memory& memory, Use use, const std::vector<Where>& places)
    : layouts_(layouts), accumulation_(accumulation), dtype_(dtype) {
  const auto where_of = [&](std::size_t unit) { return places.empty() ? Where::device : places[unit]; };
  std::array<std::size_t, where_names.size()> bytes{};
  for (std::size_t u = 0; u < layouts_.size(); ++u) {
    wheres_.push_back(static_cast<std::size_t>(where_of(u)));
    offsets_.push_back(bytes[wheres_[u]]);
    bytes[wheres_[u]] += layouts_[u].gradients.size() * size_of(dtype_);
  }
  const auto take_level = [&](Kind kind, const char* label, Use use_of_level) {
    Level level;
    for (const auto& [where, name] : where_names) {
      const auto w = static_cast<std::size_t>(where);
      if (bytes[w] > 0 || where == Where::device)
        level[w] = memory.take<std::byte>(kind, bytes[w], label, use_of_level, where);
    }
    stack_.push_back(level);
  };
  take_level(Kind::gradients, "gradients", use);
  for (std::size_t level = 1; level < accumulation_.stack(in_place); ++level) {
    take_level(Kind::buffers, "partial sums of accumulation", Use::kernels);
  }
  if (accumulation_.rounds == 1) return;
  for (std::size_t u = 0; u < layouts_.size(); ++u) {
    rounds_.push_back(memory.take<std::byte>(Kind::buffers, layouts_[u].shard.size() * size_of(dtype_), "sum over rounds",
                                             Use::kernels, where_of(u)));
  }
}

std::byte* PartialSums::at(std::size_t level, int unit, std::size_t element) const {
  const auto u = static_cast<std::size_t>(unit);
  return stack_[level][wheres_[u]].data() + offsets_[u] + (element - layouts_[u].gradients.begin) * size_of(dtype_);
}

std::byte* PartialSums::top(int unit, std::size_t micro_step) const {
  return at(accumulation_.level(micro_step), unit, layouts_[static_cast<std::size_t>(unit)].gradients.begin);
}

/// Merges `count` times, from level `top` downwards.
void PartialSums::merge_from(std::size_t top, std::size_t count, int unit, Range range) {
  for (; count > 0; --count, --top) {
    kernels::add(dtype_, range.size(), at(top, unit, range.begin), at(top - 1, unit, range.begin));
  }
}

void PartialSums::merge(int unit, std::size_t micro_step) {
  merge_from(accumulation_.level(micro_step), accumulation_.merges(micro_step), unit,
             layouts_[static_cast<std::size_t>(unit)].gradients);
}

void PartialSums::add(int unit, std::size_t micro_step, Range range, const std::byte* gradient) {
  const std::size_t level = accumulation_.level(micro_step), merges = accumulation_.merges(micro_step);
  if (merges == 0) {
    kernels::copy_bytes(range.size() * size_of(dtype_), gradient, at(level, unit, range.begin));
  } else {
    kernels::add(dtype_, range.size(), gradient, at(level - 1, unit, range.begin));
    merge_from(level - 1, merges - 1, unit, range);
  }
}

void PartialSums::finish_round(int unit, std::size_t round, Range range) {
  if (accumulation_.rounds == 1) return;
  const auto u = static_cast<std::size_t>(unit);
  const Span<std::byte> current = sum(unit, range);
  std::byte* const before = rounds_[u].data() + (range.begin - layouts_[u].shard.begin) * size_of(dtype_);
  if (round + 1 == accumulation_.rounds) {
    kernels::add(dtype_, range.size(), before, current.data());
  } else if (round == 0) {
    kernels::copy_bytes(current.size(), current.data(), before);
  } else {
    kernels::add(dtype_, range.size(), current.data(), before);
  }
}

}  // namespace shoal::zero
