// SPDX-License-Identifier: Apache-2.0
// Shards of parameters that come up from a tier which kernels do not reach, each before the gather of its unit. The gathers
// of a pass are known in their order (gather_plan.hpp), so two shards are on their way ahead of the gather that starts.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/device/tier.hpp"
#include "shoal/zero/states.hpp"
#include "zero/gather_plan.hpp"

namespace shoal::zero {

class ParameterFetches {
 public:
  /// Takes memory for two shards if parameters wait in such a tier.
  ParameterFetches(const std::vector<ShardLayout>& layouts, States& states, Memory& memory);

  /// A pass begins: starts to bring up the shards of its first gathers. What was updated must be down.
  void begin(const std::vector<GatherLifetime>& gathers);
  /// This rank's shard of the unit of the next gather, in memory, until the call after next.
  Span<std::byte> next();

 private:
  static constexpr std::size_t ahead = 2;
  struct Fetch {
    Span<std::byte> memory;
    device::Tier* tier = nullptr;
    device::Tier::Ticket ticket = 0;
  };
  void start(std::size_t gather);

  States& states_;
  std::array<Fetch, ahead> fetches_;
  const std::vector<GatherLifetime>* gathers_ = nullptr;
  std::size_t next_ = 0;
};

}  // namespace shoal::zero
