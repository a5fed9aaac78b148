// SPDX-License-Identifier: Apache-2.0
#include "app/setup/surroundings.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "app/setup/open_data.hpp"
#include "app/setup/rank_layout.hpp"
#include "app/setup/threads.hpp"
#include "app/support/collective.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/names.hpp"
#include "shoal/device/kind.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/kernels/products.hpp"
#include "shoal/kernels/runtime.hpp"
#include "shoal/plan/node_memory.hpp"

namespace shoal::app {

namespace {

void require_features(const config::TrainOptions& train) {
  const kernels::ProductFeatures has = kernels::product_features();
  const char* const here = name_of(device::kind());
  require_input(!train.tf32 || has.tf32, "train.tf32 = true: this program computes on the ", here,
                ", where products of fp32 have no TF32; allowed: false");
  require_input(!train.fused_gelu || has.gelu, "train.fused_gelu = true: this program computes on the ", here,
                ", where products compute no GELU; allowed: false");
}

void require_tiers(const zero::OffloadOptions& offload) {
  for (const auto& [name, where] : {std::pair("offload.optimizer", offload.optimizer), {"offload.params", offload.params}}) {
    require_input(where == Where::device || device::kernels_reach(Where::cpu), name, " = ", name_of(where),
                  ": this program computes on the ", name_of(device::kind()),
                  ", from which nothing is offloaded yet; allowed: none");
  }
}

/// Finds the bytes that a rank may take, where they are known: not on GPUs without memory.limit. The least of all ranks,
/// whose nodes may differ: all stages must cut the model in the same way, and all ranks must refuse it together, in the same
/// words.
void find_limit(comm::World& world, const config::Options& options, int on_host, Surroundings& found) {
  const bool given = options.memory_limit_gib > 0;
  if (device::kind() == device::DeviceKind::cuda && !given) return;
  const std::size_t own = given ? plan::limit_bytes(options.memory_limit_gib) : found.host.bytes;
  const std::vector<std::uint64_t> limits = gather_numbers(world.all(), own);
  const auto least = std::min_element(limits.begin(), limits.end());
  found.limit = static_cast<std::size_t>(*least);
  if (given) return;
  const auto rank = static_cast<int>(least - limits.begin());
  const std::string& host = world.topology().hosts[static_cast<std::size_t>(rank)];
  found.limited_by = broadcast_text(world.all(), text(plan::described(found.host, on_host), " of ", host), rank);
}

}  // namespace

Surroundings surroundings(comm::World& world, const config::Options& options, int ranks, Purpose purpose) {
  require_features(options.train);
  if (purpose == Purpose::train) require_tiers(options.offload);
  heartbeat::phase("data");
  Surroundings found;
  if (purpose != Purpose::weights) found.dataset = open_data(world.all(), options);
  found.threads = choose_threads(world, options.train.threads);
  kernels::set_threads(found.threads);  // workspaces are planned for this number
  const bool as_started = ranks == world.size();
  found.rank = as_started ? world.rank() : 0;
  found.on_node = as_started ? world.node().size() : ranks;
  const int on_host = as_started ? ranks_on_host(world, world.rank()) : 1;
  found.host = plan::share_of_groups(on_host);
  if (purpose == Purpose::train && as_started) check_nodes(options, world, divide(options, ranks, found.on_node));
  find_limit(world, options, on_host, found);
  return found;
}

}  // namespace shoal::app
