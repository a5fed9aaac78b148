// SPDX-License-Identifier: Apache-2.0
#include "pays_off.hpp"

#include <algorithm>
#include <vector>

#include "report.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/comm/tree_reduce.hpp"
#include "shoal/zero/buckets.hpp"

namespace shoal::app {

namespace {

constexpr std::size_t probe_bytes = std::size_t{1} << 20U;

std::string once_warm(const sync::SyncOptions& o) {
  const std::string late = o.average_overlap ? text(", which arrives ", o.average_delay, " later") : "";
  const std::string localsgd = text("the mean of parameters every ", o.localsgd_frequency, " steps", late);
  std::string push = text("half of a neighbour's parameters every step", o.sgp_overlap ? ", one step late" : "");
  const std::string outer = text("an outer update every ", o.slowmo_frequency, " steps (momentum ", o.slowmo_momentum,
                                 ", rate ", o.slowmo_lr, ")", o.kind == sync::SyncKind::diloco ? late : "");
  if (o.kind == sync::SyncKind::localsgd) return localsgd;
  if (o.kind == sync::SyncKind::sgp) return push;
  return o.kind == sync::SyncKind::diloco ? outer : text(outer, ", between them ", sync::pushes(o) ? push : localsgd);
}

std::string strategy(const sync::SyncOptions& o) {
  if (o.warmup_steps == 0) return once_warm(o);
  return text("gradients at every step, for ", o.warmup_steps, " steps; then ", once_warm(o));
}

/// Bytes of gradients that this rank would exchange with other nodes at every step.
std::size_t gradient_bytes(const Setup& setup, const Machine& machine) {
  std::size_t elements = 0;
  for (std::size_t u = 0; u < machine.engine.units().size(); ++u) {
    elements += zero::shard_of(machine.engine.units()[u].elements, machine.place.node.rank, machine.place.node.ranks).size();
  }
  return elements * size_of(setup.engine.gradients.dtype);
}

double all_reduce_seconds(const zero::RankGroups& across, std::size_t bytes) {
  std::vector<float> data(bytes / sizeof(float));
  std::vector<std::byte> scratch(comm::tree_scratch_bytes(across.ranks, bytes));
  const comm::Blocks blocks = zero::shard_blocks(comm::bytes_of(Span<float>(data)), sizeof(float), across.ranks);
  const std::int64_t begin = trace::now_ns();
  comm::tree_reduce_scatter(*across.group, blocks, DType::f32, scratch).wait();
  comm::tree_all_gather(*across.group, blocks, scratch).wait();
  return static_cast<double>(trace::now_ns() - begin) * 1e-9;
}

/// The slowest rank's, all at once as in a step, scaled from a small message to the whole.
double measured_all_reduce(comm::World& world, const zero::RankGroups& across, std::size_t bytes) {
  const std::size_t probe = std::clamp<std::size_t>(bytes, sizeof(float), probe_bytes) / sizeof(float) * sizeof(float);
  all_reduce_seconds(across, sizeof(float));  // connections are made when they are first used
  world.all().barrier().wait();
  std::vector<double> seconds{all_reduce_seconds(across, probe) * static_cast<double>(bytes) / static_cast<double>(probe)};
  world.all().all_reduce(Span<double>(seconds), comm::Reduce::max).wait();
  return seconds[0];
}

std::size_t steps_between(const sync::SyncOptions& o) {
  return o.kind == sync::SyncKind::diloco ? o.slowmo_frequency : sync::pushes(o) ? 2 : o.localsgd_frequency;
}

std::string verdict(const Setup& setup, comm::World& world, const Machine& machine, double peak_gflops) {
  const config::Options& o = setup.options;
  if (machine.place.across.ranks == 1) return "no: there is one node, and its ranks are in step";
  const double reduce = measured_all_reduce(world, machine.place.across, gradient_bytes(setup, machine));
  const auto every = static_cast<double>(steps_between(o.sync));
  const double tokens = static_cast<double>(o.batch.global * o.model.block_size) / setup.division.ranks;
  const double backward = 2.0 / 3.0 * tokens * model::flops_per_token(o.model) / (peak_gflops * 1e9);
  const double saved = reduce * (1 - 1 / every);
  const std::string compared = text("an all-reduce of the gradients between nodes at every step would take ",
                                    human_time(reduce), " x (1 - 1/", steps_between(o.sync), ") = ", human_time(saved),
                                    " more, and could hide behind a backward pass of ", human_time(backward), " at best");
  return saved > backward ? "yes, if backward is not much slower than the processor allows: " + compared
                          : "no: " + compared + "; sync.kind = every_step is as fast, and exact";
}

}  // namespace

void print_pays_off(const Setup& setup, comm::World& world, const Machine& machine, double peak_gflops) {
  if (!machine.synchroniser) return;
  const std::string words = verdict(setup, world, machine, peak_gflops);
  if (world.all().rank() != 0) return;
  print_table("nodes that train apart",
              {{"nodes", text(machine.place.across.ranks, machine.place.across.ranks == 1 ? " node of " : " nodes of ",
                              machine.place.node.ranks, machine.place.node.ranks == 1 ? " rank" : " ranks")},
               {"sync", text(name_of(setup.options.sync.kind), ": ", strategy(setup.options.sync))},
               {"pays off", words}});
}

}  // namespace shoal::app
