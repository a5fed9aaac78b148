// SPDX-License-Identifier: Apache-2.0
#include "zero/tied_copies.hpp"

#include <utility>

#include "shoal/base/error.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/kernels/bytes.hpp"
#include "shoal/kernels/storage.hpp"

namespace shoal::zero {

namespace {

/// Messages of the same tag between two ranks are paired in their order, and all ranks send and receive in one order.
constexpr int tag = comm::end_of_message_tags - 1;

/// The elements of a unit that this rank updates. layout: of the original, since a copy has no optimizer states.
Range updated(const ShardLayout& layout) { return layout.updated_in_part() ? layout.shard : Range{0, layout.elements}; }

Span<std::byte> parameters(States& states, int unit) {
  const ShardLayout& layout = states.layout(unit);
  const std::size_t size = size_of(states.dtype());
  const Range range = updated(layout);
  return states.parameters(unit).subspan((range.begin - layout.parameters.begin) * size, range.size() * size);
}

}  // namespace

TiedCopies::TiedCopies(const std::vector<model::UnitLayout>& units, const std::vector<ShardLayout>& layouts,
                       const RankGroups& groups, std::optional<DType> dtype, Memory& memory)
    : layouts_(layouts), groups_(groups), dtype_(dtype) {
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (!units[u].copy_of) continue;
    Pair pair{*units[u].copy_of, static_cast<int>(u), {}};
    const ShardLayout& original = layouts_[static_cast<std::size_t>(pair.original)];
    require(units[u].elements == units[static_cast<std::size_t>(pair.original)].elements, units[u].name, " has ",
            units[u].elements, " elements, its original has others");
    if (dtype && has(pair.original) && !has(pair.copy)) {
      const std::size_t bytes = original.shard.size() * size_of(*dtype);
      pair.received = memory.take<std::byte>(Kind::buffers, bytes, "gradient of a copied unit", Use::messages);
    }
    pairs_.push_back(pair);
  }
}

/// Most ranks of the group neither send nor receive, and all of them must make what it needs.
void TiedCopies::begin() {
  if (any() && groups_.model != nullptr) groups_.model->prepare(device::Queue::reduce);
}

void TiedCopies::send(const Pair& pair, int to, Span<const std::byte> data) {
  const trace::OnBehalfOf unit(pair.copy);
  groups_.model->exchange({{to, data}}, {}, tag).wait();
}

void TiedCopies::receive(const Pair& pair, int from, Span<std::byte> data) {
  const trace::OnBehalfOf unit(pair.copy);
  groups_.model->exchange({}, {{from, data}}, tag).wait();
}

void TiedCopies::add_gradients(Gradients& gradients) {
  begin();
  for (const Pair& pair : pairs_) {
    const auto shard = [&](int unit) { return gradients.shard(unit, layouts_[static_cast<std::size_t>(unit)].shard); };
    if (has(pair.copy) && !has(pair.original)) send(pair, 0, shard(pair.copy));
    if (!has(pair.original)) continue;
    Span<std::byte> from_copy = pair.received;
    if (has(pair.copy)) {
      from_copy = shard(pair.copy);
    } else {
      receive(pair, groups_.model->size() - 1, pair.received);
    }
    const Span<std::byte> sum = shard(pair.original);
    kernels::add(*dtype_, sum.size() / size_of(*dtype_), from_copy.data(), sum.data());
  }
}

void TiedCopies::renew(States& states) {
  begin();
  for (const Pair& pair : pairs_) {
    if (together(pair)) {
      const Span<std::byte> from = parameters(states, pair.original);
      kernels::copy_bytes(from.size(), from.data(), parameters(states, pair.copy).data());
    } else if (has(pair.original)) {
      send(pair, groups_.model->size() - 1, parameters(states, pair.original));
    } else if (has(pair.copy)) {
      receive(pair, 0, parameters(states, pair.copy));
    }
  }
}

}  // namespace shoal::zero
