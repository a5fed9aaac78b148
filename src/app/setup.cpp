// SPDX-License-Identifier: Apache-2.0
#include "setup.hpp"

#include "algorithms.hpp"
#include "device_start.hpp"
#include "open_data.hpp"
#include "saves.hpp"
#include "shoal/base/activity.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/names.hpp"
#include "shoal/device/kind.hpp"
#include "shoal/kernels/products.hpp"
#include "shoal/kernels/runtime.hpp"
#include "shoal/model/model.hpp"
#include "shoal/plan/notation.hpp"
#include "shoal/sync/schedule.hpp"
#include "shoal/zero/stages.hpp"
#include "stage_memory.hpp"
#include "threads.hpp"
#include "weights.hpp"

namespace shoal::app {

namespace {

/// Returns true if nodes differ at an evaluation, which then needs memory for their mean.
bool evaluates_mean(const config::Options& options, int nodes) {
  if (options.data.val_fraction == 0 && options.data.val_source.empty()) return false;
  const sync::SyncSchedule schedule(options.sync, nodes);
  if (schedule.nodes_differ_after(options.train.steps)) return true;
  const std::size_t every = options.train.eval_every, evaluations = every == 0 ? 0 : options.train.steps / every;
  // Nodes agree after the multiples of one or two numbers of steps. If they agree at the last four evaluations, they agree
  // at all.
  for (std::size_t k = evaluations; k > 0 && k + 4 > evaluations; --k) {
    if (schedule.nodes_differ_after(k * every)) return true;
  }
  return false;
}

void require_features(const config::TrainOptions& train) {
  const kernels::ProductFeatures has = kernels::product_features();
  const char* const here = name_of(device::kind());
  require_input(!train.tf32 || has.tf32, "train.tf32 = true: this program computes on the ", here,
                ", where products of fp32 have no TF32; allowed: false");
  require_input(!train.fused_gelu || has.gelu, "train.fused_gelu = true: this program computes on the ", here,
                ", where products compute no GELU; allowed: false");
}

/// On GPUs only staging memory is the host's; require_room() checks the rest, when the GPU is known.
void require_host_memory(const plan::MemoryPlan& plan, int on_host) {
  const std::size_t share = plan::available_bytes(0, on_host), staging = plan.bytes[Kind::staging];
  require_input(staging <= share, "the run needs ", plan::bytes_text(staging),
                " of the host's memory per rank (staging), and a rank ", "may take ", plan::bytes_text(share),
                ": the node's memory divided by its ranks");
}

std::optional<sync::Synchroniser> synchroniser(const config::Options& options, zero::Engine& engine,
                                               const sync::NodeGroups& groups, Memory& memory) {
  if (!sync::trains_locally(options.sync)) return std::nullopt;
  const sync::SyncContext run = {options.comm.reduce_dtype, options.zero.quant_block,
                                 evaluates_mean(options, groups.across.ranks)};
  return std::optional<sync::Synchroniser>(std::in_place, options.sync, run, engine.units(), engine.states(), groups,
                                           memory);
}

pipeline::Runner runner(const config::Options& options, const StagePlan& stages, zero::Engine& engine,
                        comm::Communicator* group, Memory& memory) {
  return {group, stages.lists, stages.shape, border_bytes(options, engine), memory};
}

/// Collectives of the MPI library are one message each: a bucket, and at stage 3 a unit that is gathered.
void require_countable(const config::Options& options, int ranks) {
  const bool by_mpi = options.comm.backend == comm::Backend::mpi || device::kind() != device::DeviceKind::cuda;
  if (options.comm.collectives != comm::Collectives::native || !by_mpi || ranks == 1) return;
  constexpr auto most = static_cast<double>(comm::largest_native_bytes);
  const bool gathers = zero::stage_of(options.zero).shards_parameters;
  double all = 0;
  for (const model::UnitLayout& unit : model::layout(options.model)) {
    all += static_cast<double>(unit.elements * sizeof(float));
    const std::size_t bytes = unit.elements * size_of(options.train.dtype);
    require_input(!gathers || bytes <= comm::largest_native_bytes, "comm.collectives = native: unit ", unit.name,
                  " of the model takes ", bytes, " bytes, and a message up to ", comm::largest_native_bytes,
                  "; allowed: comm.collectives = reproducible, or a zero.stage below 3");
  }
  require_input(std::min(all, 1e6 * options.comm.bucket_mb) <= most, "comm.bucket_mb = ", options.comm.bucket_mb,
                " is too much for comm.collectives = native, with messages of up to ", comm::largest_native_bytes,
                " bytes; allowed: up to ", static_cast<int>(1e-6 * most));
}

/// Bytes that a rank may take, where they are known: not on GPUs without memory.limit. The least of all ranks, whose nodes
/// may differ: all stages must cut the model in the same way, and all ranks must refuse it together.
std::optional<std::size_t> limit_of(comm::World& world, const config::Options& options, int on_host) {
  if (device::kind() == device::DeviceKind::cuda && options.memory_limit_gib == 0) return std::nullopt;
  std::uint64_t limit = plan::available_bytes(options.memory_limit_gib, on_host);
  world.all().all_reduce(Span<std::uint64_t>(&limit, 1), comm::Reduce::min).wait();
  return static_cast<std::size_t>(limit);
}

}  // namespace

zero::Squares measured_squares(const config::Options& options) {
  if (!options.adascale.on) return zero::Squares::none;
  return options.optimizer.kind == optim::OptimizerKind::adamw ? zero::Squares::weighted : zero::Squares::plain;
}

zero::EngineOptions engine_options(const config::Options& options, const Division& division, Purpose purpose) {
  const bool training = purpose == Purpose::train, decoding = purpose == Purpose::generate;
  zero::EngineOptions engine;
  engine.model = options.model;
  engine.dtype = options.train.dtype;
  engine.capacity = {decoding ? 1 : options.batch.micro, options.model.block_size, training, decoding};
  engine.capacity.fused_gelu = options.train.fused_gelu;
  engine.capacity.checkpoint_interval = options.activation.checkpoint_interval;
  engine.optimizer = options.optimizer;
  engine.zero = options.zero;
  if (decoding) engine.zero.stage = 0;  // one rank continues a text by itself
  if (!training) engine.zero.hpz_size = 0;
  if (engine.zero.hpz_size == zero::ZeroOptions::whole_node)
    engine.zero.hpz_size = static_cast<std::size_t>(division.on_node);
  require_input(zero::hpz_divides(engine.zero.hpz_size, division.sync_group_size), "zero.hpz_size = ", engine.zero.hpz_size,
                " does not divide the ", division.sync_group_size, " ranks that reduce gradients at every step");
  engine.gradients.bucket_elements = static_cast<std::size_t>(options.comm.bucket_mb * 1e6 / sizeof(float));
  engine.gradients.overlap = options.comm.overlap;
  engine.gradients.collectives = options.comm.collectives;
  engine.gradients.dtype = options.comm.reduce_dtype;
  engine.gradients.squares = measured_squares(options);
  engine.gradients.quantized = zero::quantized_reduction(options.zero, division.on_node);
  // Without training nothing is summed over micro-batches, so any number will do.
  const auto ranks = static_cast<std::size_t>(division.ranks),
             groups = ranks / static_cast<std::size_t>(division.sync_group_size);
  engine.micro_batches = training ? options.batch.global / options.batch.micro / groups : ranks;
  engine.grad_clip = options.train.grad_clip;
  engine.seed = options.train.seed;
  return engine;
}

std::size_t turns_of(const zero::EngineOptions& engine, const Division& division) {
  return zero::AccumulationPlan(engine.micro_batches, division.sync_group_size, false, false).turns();
}

Setup prepare(comm::World& world, const config::Options& options, int ranks, Purpose purpose) {
  require_features(options.train);
  heartbeat::phase("data");
  Setup setup;
  setup.options = options;
  if (purpose != Purpose::weights) {
    setup.dataset = open_data(world.all(), options);
  }
  if (setup.options.model.vocab_size == 0) setup.options.model.vocab_size = setup.dataset.vocab_size;
  setup.threads = choose_threads(world, options.train.threads);
  kernels::set_threads(setup.threads);  // workspaces are planned for this number
  const bool as_started = ranks == world.size(), training = purpose == Purpose::train;
  const int on_host = as_started ? ranks_on_host(world, world.rank()) : 1;
  setup.division = divide(options, ranks, as_started ? world.node().size() : ranks);
  const int data_ranks = setup.division.ranks;
  const int rank = as_started ? setup.division.axes.position(world.rank(), ranks).data : 0;
  if (!training) setup.division.sync_group_size = data_ranks;
  if (training && as_started) check_nodes(options, world, setup.division);
  const int sync_group_size = setup.division.sync_group_size;
  if (training) require_countable(setup.options, sync_group_size);
  const std::optional<std::size_t> limit = limit_of(world, options, on_host);
  setup.all_stages = std::make_shared<PlannedStages>(plan_stages(setup.options, setup.division, purpose, limit));
  setup.stages = setup.all_stages->stages;
  setup.stages.shape.stage = as_started ? setup.division.axes.position(world.rank(), ranks).pipeline : 0;
  setup.engine = with_parts(setup.all_stages->engine, setup.stages);
  setup.plan = plan::memory(setup.engine, rank % sync_group_size, sync_group_size,
                            extra_allocations(setup.options, setup.division, setup.stages, purpose, rank));
  if (!limit) require_host_memory(setup.plan, on_host);
  // Every stage must fit.
  const std::string problem =
      limit ? memory_problem(*setup.all_stages, setup.options, setup.division, purpose, *limit) : std::string();
  require_input(problem.empty(), problem);
  return setup;
}

plan::ExtraAllocations extra_allocations(const config::Options& options, const Division& division, const StagePlan& stages,
                                         Purpose purpose, int rank) {
  return [=](zero::Engine& engine, Memory& memory) {
    runner(options, stages, engine, nullptr, memory);
    if (purpose == Purpose::weights) take_export_piece(engine, memory);
    if (purpose != Purpose::train) return;
    if (!options.output.export_dir.empty()) take_export_piece(engine, memory);
    synchroniser(options, engine, node_groups(rank, division.ranks, division.sync_group_size), memory);
    take_checkpoint_copy(options, engine, memory);
  };
}

Machine::Machine(const Setup& setup, comm::World& world)
    : groups(make_node_groups(world, setup.division, setup.options, setup.engine.zero.hpz_size)),
      memory(setup.plan.bytes),
      engine(setup.engine, groups.node, memory),
      runner(app::runner(setup.options, setup.stages, engine, &world.pipeline(), memory)),
      synchroniser(app::synchroniser(setup.options, engine, groups, memory)) {
  kernels::set_tf32(setup.options.train.tf32);
  agree_on_algorithms(world.data(), engine.products());  // the ranks that compute the same ones
  prepare_kernels(world.all(), [&] { return engine.prepare(); });
  start_messages(world);  // of groups that were made since
  std::vector<std::string> names;
  for (const auto& unit : engine.units()) names.push_back(unit.name);
  activity::name_units(std::move(names));
}

}  // namespace shoal::app
