// SPDX-License-Identifier: Apache-2.0
#include "zero/parameter_fetches.hpp"

#include <algorithm>

#include "shoal/base/error.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/device/transfer_memory.hpp"

namespace shoal::zero {

ParameterFetches::ParameterFetches(const std::vector<ShardLayout>& layouts, States& states, Memory& memory)
    : states_(states) {
  std::size_t bytes = 0;
  for (std::size_t u = 0; u < layouts.size(); ++u) {
    const int unit = static_cast<int>(u);
    if (!device::kernels_reach(states.places(unit).params)) bytes = std::max(bytes, states.parameters(unit).size());
  }
  if (bytes == 0) return;
  for (Fetch& fetch : fetches_)
    fetch.memory = device::take_for_transfers(memory, device::windows_kind(), bytes, "offloaded parameters");
}

void ParameterFetches::begin(const std::vector<GatherLifetime>& gathers) {
  if (fetches_.front().memory.empty()) return;
  states_.finish_moves();
  gathers_ = &gathers;
  next_ = 0;
  for (std::size_t gather = 0; gather < ahead; ++gather) start(gather);
}

void ParameterFetches::start(std::size_t gather) {
  if (gather >= gathers_->size()) return;
  Fetch& fetch = fetches_[gather % ahead];
  const Span<std::byte> shard = states_.parameters((*gathers_)[gather].unit);
  fetch.ticket = 0;
  if (shard.empty()) return;
  fetch.tier = device::tier_of(shard.data());
  require(fetch.tier != nullptr, "parameters wait in a tier that nobody serves");
  fetch.ticket = fetch.tier->up(shard, fetch.memory);
}

Span<std::byte> ParameterFetches::next() {
  const std::size_t gather = next_++;
  if (gather > 0) start(gather + ahead - 1);  // in the memory of the gather before this one
  Fetch& fetch = fetches_[gather % ahead];
  if (fetch.ticket != 0) {
    const trace::Region region(trace::Level::comm, trace::Kind::wait, "parameters up");
    fetch.tier->wait(fetch.ticket);
  }
  return fetch.memory.first(states_.parameters((*gathers_)[gather].unit).size());
}

}  // namespace shoal::zero
