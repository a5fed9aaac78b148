// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/model_states.hpp"

#include "shoal/optim/optimizer.hpp"
#include "shoal/zero/stages.hpp"

namespace shoal::plan {

Ledger model_states(std::size_t parameters, const zero::EngineOptions& options, int ranks) {
  const zero::Stage& stage = zero::stage_of(options.zero);
  const auto bytes = [&](std::size_t bytes_each, bool is_sharded) {
    return parameters * bytes_each / (is_sharded ? static_cast<std::size_t>(ranks) : 1);
  };
  const bool rounded = options.dtype != DType::f32;
  const std::size_t moments = optim::make(options.optimizer)->moment_names().size();
  Ledger ledger;
  ledger[Kind::parameters] = bytes(size_of(options.dtype), stage.shards_parameters);
  ledger[Kind::master] = rounded ? bytes(sizeof(float), stage.shards_optimizer) : 0;
  ledger[Kind::gradients] = bytes(size_of(options.gradients.dtype), stage.shards_gradients);
  ledger[Kind::moments] = bytes(sizeof(float) * moments, stage.shards_optimizer);
  return ledger;
}

std::size_t model_state_bytes(const Ledger& ledger) {
  std::size_t bytes = 0;
  for (const auto& [where, name] : where_names) {
    for (const Kind kind : {Kind::parameters, Kind::master, Kind::gradients, Kind::moments}) bytes += ledger.at(where, kind);
  }
  return bytes;
}

}  // namespace shoal::plan
