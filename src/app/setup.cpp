// SPDX-License-Identifier: Apache-2.0
#include "setup.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "saves.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/kernels/runtime.hpp"
#include "shoal/plan/fit.hpp"
#include "shoal/sync/schedule.hpp"

namespace shoal::app {

namespace {

/// OMP_NUM_THREADS, where it is set to a number ("4", or "4,2" for nested levels); 0 otherwise.
int openmp_limit() {
  const char* const value = std::getenv("OMP_NUM_THREADS");
  if (value == nullptr) return 0;
  int limit = 0;
  const auto [end, status] = std::from_chars(value, value + std::strlen(value), limit);
  return status == std::errc() && (*end == '\0' || *end == ',') ? limit : 0;
}

sync::Placement placed(int rank, int ranks, int in_step) {
  return {{rank % in_step, in_step, nullptr}, {rank / in_step, ranks / in_step, nullptr}};
}

/// Whether an evaluation meets nodes that differ, so that their mean has to be shown.
bool evaluates_apart(const config::Options& options, int nodes) {
  if (options.data.val_fraction == 0 && options.data.val_source.empty()) return false;
  const sync::Schedule schedule(options.sync, nodes);
  if (schedule.differ(options.train.steps)) return true;
  const std::size_t every = options.train.eval_every;
  for (std::size_t step = every; every > 0 && step <= options.train.steps; step += every) {
    if (schedule.differ(step)) return true;
  }
  return false;
}

std::optional<sync::Synchroniser> synchroniser(const config::Options& options, zero::Engine& engine,
                                               const sync::Placement& place, Memory& memory) {
  if (!sync::seldom(options.sync)) return std::nullopt;
  return std::optional<sync::Synchroniser>(std::in_place, options.sync, engine.units(), engine.states(), place,
                                           evaluates_apart(options, place.across.ranks), memory);
}

/// The ranks of a node must be as many on every node where they are what stays in step.
void check_nodes(const config::Options& options, comm::World& world, int in_step) {
  if (!sync::seldom(options.sync)) return;
  const std::string unequal = sync::unequal_nodes(world.node_of());
  require_input(options.sync.nprocs_per_node > 0 || unequal.empty(), "sync.kind = ", options.sync.kind, ": ", unequal);
  if (!sync::pushes(options.sync) || options.zero.stage != 3 || world.size() == 1) return;
  const std::string problem = config::push_of_shared_parameters(in_step, world.node().size());
  require_input(problem.empty(), problem);
}

DType dtype_named(const std::string& name) {
  return name == "bf16" ? DType::bf16 : name == "fp16" ? DType::f16 : DType::f32;
}

}  // namespace

int choose_threads(comm::World& world, int asked) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  require(sched_getaffinity(0, sizeof mine, &mine) == 0, "cannot ask for this process's cores: ", std::strerror(errno));
  std::vector<cpu_set_t> all(static_cast<std::size_t>(world.node().size()));
  world.node().all_gather(comm::bytes_of(Span<cpu_set_t>(&mine, 1)), comm::bytes_of(Span<cpu_set_t>(all))).wait();
  const auto sharing = std::count_if(all.begin(), all.end(), [&](const cpu_set_t& other) {
    cpu_set_t common;
    CPU_AND(&common, &mine, &other);
    return CPU_COUNT(&common) > 0;
  });
  const int cores = CPU_COUNT(&mine);
  const int limit = openmp_limit();
  if (asked > 0) {
    require_input(limit == 0 || asked <= limit, "train.threads = ", asked, ", but OMP_NUM_THREADS = ", limit,
                  " is its upper limit; allowed: auto, 1 ... ", limit);
    return asked;
  }
  const int threads = std::max(1, cores / std::max(1, static_cast<int>(sharing)));
  return limit > 0 ? std::min(threads, limit) : threads;
}

zero::EngineOptions engine_options(const config::Options& options, int ranks, int in_step, Purpose purpose) {
  const bool training = purpose == Purpose::train, decoding = purpose == Purpose::generate;
  zero::EngineOptions engine;
  engine.model = options.model;
  engine.dtype = dtype_named(options.train.dtype);
  engine.capacity = {decoding ? 1 : options.batch.micro, options.model.block_size, training, decoding};
  engine.capacity.checkpoint_interval = options.activation.checkpoint_interval;
  engine.optimizer = options.optimizer;
  engine.zero = options.zero;
  if (decoding) engine.zero.stage = 0;  // one rank continues a text by itself
  engine.gradients.message_elements = static_cast<std::size_t>(options.comm.bucket_mb * 1e6 / sizeof(float));
  engine.gradients.overlap = options.comm.overlap;
  engine.gradients.collectives =
      options.comm.collectives == "native" ? comm::Collectives::native : comm::Collectives::reproducible;
  engine.gradients.dtype = dtype_named(options.comm.reduce_dtype);
  // Without training nothing is summed over micro-batches: the ranks share the samples out as they like.
  const auto groups = static_cast<std::size_t>(ranks / in_step);
  engine.micro_batches = training ? options.batch.global / options.batch.micro / groups : static_cast<std::size_t>(ranks);
  engine.grad_clip = options.train.grad_clip;
  engine.seed = options.train.seed;
  return engine;
}

Setup prepare(comm::World& world, const config::Options& options, int ranks, Purpose purpose) {
  heartbeat::phase("data");
  Setup setup;
  setup.options = options;
  setup.ranks = ranks;
  if (purpose != Purpose::weights) {
    setup.dataset = data::open(options.data, options.model.vocab_size, options.model.block_size, options.train.seed);
  }
  if (setup.options.model.vocab_size == 0) setup.options.model.vocab_size = setup.dataset.vocab_size;
  setup.threads = choose_threads(world, options.train.threads);
  kernels::set_threads(setup.threads);  // workspaces are planned for so many
  const bool as_started = ranks == world.size(), training = purpose == Purpose::train;
  const int rank = as_started ? world.all().rank() : 0, on_node = as_started ? world.node().size() : 1;
  setup.in_step = training ? ranks_in_step(options, ranks, as_started ? on_node : ranks) : ranks;
  if (training && as_started) check_nodes(options, world, setup.in_step);
  setup.engine = engine_options(setup.options, ranks, setup.in_step, purpose);
  const plan::Further besides =
      training ? besides_engine(setup.options, rank, ranks, setup.in_step) : [](zero::Engine&, Memory&) {};
  setup.plan = plan::memory(setup.engine, rank % setup.in_step, setup.in_step, besides);
  const std::string problem =
      plan::why_too_large(setup.engine, setup.in_step, plan::available_bytes(options.memory_limit_gib, on_node),
                          training ? besides_engine(setup.options, 0, ranks, setup.in_step) : besides);
  require_input(problem.empty(), problem);
  return setup;
}

int ranks_in_step(const config::Options& options, int ranks, int on_node) {
  if (!sync::seldom(options.sync)) return ranks;
  if (options.sync.nprocs_per_node > 0) return options.sync.nprocs_per_node;
  return options.comm.ranks_per_node > 0 ? options.comm.ranks_per_node : on_node;
}

plan::Further besides_engine(const config::Options& options, int rank, int ranks, int in_step) {
  return [=](zero::Engine& engine, Memory& memory) {
    synchroniser(options, engine, placed(rank, ranks, in_step), memory);
    take_checkpoint_copy(options, engine, memory);
  };
}

namespace {

sync::Placement place_of(const Setup& setup, comm::World& world) {
  sync::Placement place = placed(world.all().rank(), world.size(), setup.in_step);
  if (setup.in_step == world.size()) {
    place.node.group = &world.all();
  } else if (setup.in_step == world.node().size()) {
    place.node.group = &world.node();
    place.across.group = &world.across();
  } else {
    world.divide(setup.in_step);
    place.node.group = &world.in_step();
    place.across.group = &world.between();
  }
  return place;
}

}  // namespace

Machine::Machine(const Setup& setup, comm::World& world)
    : place(place_of(setup, world)),
      memory(setup.plan.bytes),
      engine(setup.engine, place.node, memory),
      synchroniser(app::synchroniser(setup.options, engine, place, memory)) {}

}  // namespace shoal::app
