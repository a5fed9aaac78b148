// SPDX-License-Identifier: Apache-2.0
#include "app/train/pays_off.hpp"

#include <algorithm>
#include <vector>

#include "app/support/text_table.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/comm/tree_reduce.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/device/queue.hpp"
#include "shoal/kernels/bytes.hpp"
#include "shoal/zero/buckets.hpp"

namespace shoal::app {

namespace {

constexpr std::size_t probe_bytes = std::size_t{1} << 20U;

/// After the warm-up.
std::string local_training(const sync::SyncOptions& o) {
  const std::string late = o.average_overlap ? text(", applied ", counted(o.average_delay, "step"), " later") : "";
  std::string localsgd = text("average of the parameters every ", counted(o.localsgd_frequency, "step"), late);
  std::string push = text("average with a neighbour every step", o.sgp_overlap ? ", one step late" : "");
  const std::string outer =
      text("outer update every ", counted(o.slowmo_frequency, "step"), " (momentum ", o.slowmo_momentum, ", rate ",
           o.slowmo_lr, ")", o.kind == sync::SyncKind::diloco ? late : "");
  if (o.kind == sync::SyncKind::localsgd) return localsgd;
  if (o.kind == sync::SyncKind::sgp) return push;
  return o.kind == sync::SyncKind::diloco ? outer : text(outer, "; between them ", sync::pushes(o) ? push : localsgd);
}

std::string strategy(const sync::SyncOptions& o) {
  if (o.warmup_steps == 0) return local_training(o);
  return text("sums of gradients for ", counted(o.warmup_steps, "step"), ", then ", local_training(o));
}

/// Bytes of the gradients that this rank would sum over the nodes at every step.
std::size_t gradient_bytes(const ResolvedRun& resolved, const Assembly& assembly) {
  std::size_t elements = 0;
  for (std::size_t u = 0; u < assembly.engine.units().size(); ++u) {
    elements +=
        zero::shard_of(assembly.engine.units()[u].elements, assembly.groups.node.rank, assembly.groups.node.ranks).size();
  }
  return elements * size_of(resolved.engine.gradients.dtype);
}

double all_reduce_seconds(const zero::RankGroups& across, std::size_t bytes) {
  Span<float> data;
  Span<std::byte> scratch;
  const device::DeviceMemory memory([&](Memory& m) {
    data = m.take<float>(Kind::buffers, bytes / sizeof(float), "data", Use::messages);
    scratch = m.take<std::byte>(Kind::buffers, comm::tree_scratch_bytes(across.ranks, bytes), "messages", Use::messages);
  });
  kernels::fill(data.size(), 0.0F, data.data());
  const comm::Blocks blocks = zero::shard_blocks(comm::bytes_of(data), sizeof(float), across.ranks);
  device::wait_for_device();
  const std::int64_t begin = trace::now_ns();
  comm::tree_reduce_scatter(*across.group, blocks, DType::f32, scratch).wait();
  comm::tree_all_gather(*across.group, blocks, scratch).wait();
  device::wait_for_device();
  return static_cast<double>(trace::now_ns() - begin) * 1e-9;
}

/// Seconds of the slowest rank, all ranks at the same time as in a step; measured with a small message and scaled up.
double measured_all_reduce(comm::World& world, const zero::RankGroups& across, std::size_t bytes) {
  const std::size_t probe = std::clamp<std::size_t>(bytes, sizeof(float), probe_bytes) / sizeof(float) * sizeof(float);
  all_reduce_seconds(across, sizeof(float));  // connections are set up at their first use
  world.all().barrier().wait();
  std::vector<double> seconds{all_reduce_seconds(across, probe) * static_cast<double>(bytes) / static_cast<double>(probe)};
  world.all().all_reduce(Span<double>(seconds), comm::Reduce::max).wait();
  return seconds[0];
}

std::size_t steps_between(const sync::SyncOptions& o) {
  return o.kind == sync::SyncKind::diloco ? o.slowmo_frequency : sync::pushes(o) ? 2 : o.localsgd_frequency;
}

std::string advice(const ResolvedRun& resolved, comm::World& world, const Assembly& assembly, double peak_gflops) {
  const config::Options& o = resolved.options;
  if (assembly.groups.across.ranks == 1)
    return "no: there is one node, and its ranks reduce gradients at every step in any case";
  const double reduce = measured_all_reduce(world, assembly.groups.across, gradient_bytes(resolved, assembly));
  const auto every = static_cast<double>(steps_between(o.sync));
  const double tokens = static_cast<double>(o.batch.global * o.model.block_size) / resolved.division.ranks;
  const double backward = 2.0 / 3.0 * tokens * model::flops_per_token(o.model) / (peak_gflops * 1e9);
  const double saved = reduce * (1 - 1 / every);
  const auto ms = [](double seconds) { return fixed(1e3 * seconds, 3) + " ms"; };
  const std::string added = text("synchronizing at every step would add ", ms(saved), " per step (an all-reduce of ",
                                 ms(reduce), " x (1 - 1/", steps_between(o.sync), "))");
  const std::string least = text("the backward pass (at least ", ms(backward), ")");
  return saved > backward
             ? text("yes, unless backward is much slower than the processor allows: ", added, ", more than ", least,
                    " can hide")
             : text("no: ", added, ", which ", least, " can hide; sync.kind = every_step is as fast, and exact");
}

}  // namespace

void print_pays_off(const ResolvedRun& resolved, comm::World& world, const Assembly& assembly, double peak_gflops) {
  if (!assembly.synchroniser) return;
  const std::string worth_it = advice(resolved, world, assembly, peak_gflops);
  if (world.all().rank() != 0) return;
  print_table(
      "nodes that train locally",
      {{"nodes", text(counted(assembly.groups.across.ranks, "node"), " of ", counted(assembly.groups.node.ranks, "rank"))},
       {"sync", text(name_of(resolved.options.sync.kind), ": ", strategy(resolved.options.sync))},
       {"worth it", worth_it}});
}

}  // namespace shoal::app
