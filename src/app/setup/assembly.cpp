// SPDX-License-Identifier: Apache-2.0
#include "app/setup/assembly.hpp"

#include <string>
#include <utility>
#include <vector>

#include "app/setup/algorithms.hpp"
#include "app/setup/extra_memory.hpp"
#include "app/setup/tiers.hpp"
#include "shoal/base/activity.hpp"
#include "shoal/kernels/runtime.hpp"

namespace shoal::app {

Assembly::Assembly(const ResolvedRun& resolved, comm::World& world)
    : groups(make_node_groups(world, resolved.division, resolved.options, resolved.engine.zero.hpz_size)),
      memory(resolved.plan.bytes),
      nvme(open_nvme(world, resolved, memory)),
      engine(resolved.engine, groups.node, memory),
      runner(take_runner(resolved.options, resolved.stages, engine, &world.pipeline(), memory)),
      synchroniser(take_synchroniser(resolved.options, engine, groups, memory)) {
  kernels::set_tf32(resolved.options.train.tf32);
  agree_on_algorithms(world.data(), engine.products());  // the ranks that compute the same ones
  prepare_kernels(world.all(), [&] { return engine.prepare(); });
  std::vector<std::string> names;
  for (const auto& unit : engine.units()) names.push_back(unit.name);
  activity::name_units(std::move(names));
}

}  // namespace shoal::app
