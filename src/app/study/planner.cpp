// SPDX-License-Identifier: Apache-2.0
#include "app/study/planner.hpp"

#include <algorithm>
#include <vector>

#include "app/jobscript/jobscript.hpp"
#include "app/plan/strategies.hpp"
#include "app/setup/threads.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/error.hpp"
#include "shoal/kernels/runtime.hpp"
#include "shoal/plan/fit.hpp"

namespace shoal::app {

namespace {

constexpr std::size_t most_sequences = 65536;  ///< of a micro-batch without batch.global

/// Sets the micro-batch; without batch.global the batch is one micro-batch for each rank, stages of pipelines included.
void set_micro(config::Invocation& run, const StudyGrid& grid, std::size_t global, std::size_t micro) {
  run.options.batch.micro = micro;
  run.options.batch.global = global == 0 ? micro * static_cast<std::size_t>(grid.ranks()) : global;
}

std::size_t bytes_with(config::Invocation run, const StudyGrid& grid, std::size_t global, std::size_t micro,
                       std::size_t limit) {
  set_micro(run, grid, global, micro);
  config::validate(run, grid.ranks());
  return plan_inputs(run.options, grid.ranks(), grid.ranks_per_node, limit).memory().bytes.total();
}

/// The largest micro-batch if the batch grows with it, so that a larger one needs more memory.
std::size_t largest_of_any_batch(const config::Invocation& run, const StudyGrid& grid, std::size_t limit) {
  std::size_t fitting = 0, too_many = 1;
  while (too_many <= most_sequences && bytes_with(run, grid, 0, too_many, limit) <= limit) {
    fitting = too_many;
    too_many *= 2;
  }
  while (fitting + 1 < too_many) {
    const std::size_t middle = (fitting + too_many) / 2;
    (bytes_with(run, grid, 0, middle, limit) <= limit ? fitting : too_many) = middle;
  }
  return std::max<std::size_t>(fitting, 1);
}

/// The micro-batches into which a rank's batch can be divided, the largest first. A pipeline gets a micro-batch for each
/// stage, if the batch has as many sequences: with fewer, stages would be idle because the micro-batch is large.
std::vector<std::size_t> micro_batches(const config::Options& options, std::size_t share) {
  const auto stages = static_cast<std::size_t>(options.pipeline.size);
  const bool whole_groups = stages > 1 && row_of(options.pipeline.schedule).whole_groups;
  std::vector<std::size_t> all;
  for (std::size_t micro = share; micro >= 1; --micro) {
    const std::size_t turns = share / micro;
    if (share % micro != 0 || turns < std::min(stages, share)) continue;
    if (!whole_groups || turns % stages == 0) all.push_back(micro);
  }
  return all;
}

/// Returns the largest micro-batch that fits; if none does, the one that needs least, for which the caller then fails.
std::size_t largest_micro(const config::Invocation& run, const StudyGrid& grid, std::size_t global, std::size_t limit) {
  const auto stages = static_cast<std::size_t>(run.options.pipeline.size), ranks = static_cast<std::size_t>(grid.ranks());
  const std::size_t data_ranks = std::max<std::size_t>(1, ranks / stages);
  if (global == 0) return largest_of_any_batch(run, grid, limit);
  require_input(global % data_ranks == 0, "batch.global = ", global, " cannot be divided among ",
                counted(data_ranks, stages == 1 ? "rank" : "data-parallel rank"));
  // A larger micro-batch needs more memory for activations, but leaves fewer partial sums, so all are tried.
  std::size_t least = 0, least_micro = run.options.batch.micro;
  for (const std::size_t micro : micro_batches(run.options, global / data_ranks)) {
    const std::size_t bytes = bytes_with(run, grid, global, micro, limit);
    if (least != 0 && bytes >= least) continue;
    least = bytes;
    least_micro = micro;
    if (bytes <= limit) break;
  }
  return least_micro;
}

}  // namespace

std::size_t limited_bytes(const Ledger& planned, const config::Options& options, device::DeviceKind kind) {
  return options.memory_limit_gib > 0 ? planned.total() : host_bytes(planned, kind);
}

StudyPoint PointPlanner::point(const StudyVariant& variant, const StudyGrid& grid, std::size_t global) const {
  StudyPoint point;
  point.strategy = variant.strategy;
  point.grid = grid;
  kernels::set_threads(threads_of_job(variant.asked, request_.cores_per_rank, "study.cores_per_rank"));
  const plan::MemoryShare share = limit(variant.asked.options, grid);
  point.limit = share.bytes;
  config::Invocation run = variant.asked;
  // On this machine the nodes are pretended; a batch system provides them.
  if (request_.launcher == Launcher::local) run.options.comm.ranks_per_node = grid.ranks_per_node;
  const bool largest = request_.micro == MicroBatch::largest;
  set_micro(run, grid, global, largest ? largest_micro(run, grid, global, point.limit) : run.options.batch.micro);
  config::validate(run, grid.ranks());
  const PlanInputs inputs = plan_inputs(run.options, grid.ranks(), grid.ranks_per_node, point.limit);
  point.planned = inputs.memory().bytes;
  if (limited_bytes(point.planned, run.options, device::kind()) > point.limit)
    bad_input(memory_problem(inputs, run.options, point.limit), share.bound.empty() ? "" : "; the limit: ", share.bound);
  point.options = run.options;
  point.same_trajectory = same_trajectory(run.options);
  predict_step(point, inputs);
  return point;
}

plan::MemoryShare PointPlanner::limit(const config::Options& options, const StudyGrid& grid) const {
  const bool on_one_machine = request_.launcher == Launcher::local;
  if (options.memory_limit_gib > 0) return {plan::limit_bytes(options.memory_limit_gib), ""};
  require_input(request_.micro == MicroBatch::fixed || device::kind() != device::DeviceKind::cuda,
                "study.micro = largest needs memory.limit: the memory of the GPUs is not known here");
  const int ranks = on_one_machine ? grid.ranks() : grid.ranks_per_node;
  // A batch system's jobs run in other control groups than this process, on nodes that are taken to be like this one.
  plan::MemoryShare share = on_one_machine ? plan::share_of_groups(ranks) : plan::share_of_node(ranks);
  share.bound = plan::described(share, ranks);
  return share;
}

void PointPlanner::predict_step(StudyPoint& point, const PlanInputs& inputs) const {
  const plan::Cluster cluster = {point.grid.nodes, point.grid.ranks_per_node};
  plan::NetworkModel network;  // without a measured one only the bytes are taken from the simulated step
  network.node = network.across = plan::Link{};
  point.timed = times_.has_value();
  if (times_) {
    const std::string missing = plan::missing_measurement(times_->machine.network, cluster);
    require_input(missing.empty(), "study.network: ", times_->source, " does not describe ", counted(cluster.nodes, "node"),
                  " x ", counted(cluster.ranks_per_node, "rank"), ": ", missing);
    network = times_->network(point.options.comm);
  }
  if (point.options.pipeline.size > 1) {
    point.step = pipeline_step(inputs, point.options, cluster, network, times_ ? &*times_ : nullptr).time;
    return;
  }
  plan::Arithmetic arithmetic;
  if (times_) arithmetic = times_->arithmetic(inputs.engine, inputs.sync_group_size, point.options.train.dtype);
  point.step = plan::step_time(inputs.engine, point.options.sync, inputs.sync_group_size, cluster, network, arithmetic);
}

}  // namespace shoal::app
