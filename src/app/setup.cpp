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
  const int threads = std::max(1, cores / static_cast<int>(sharing));
  return limit > 0 ? std::min(threads, limit) : threads;
}

zero::Squares measured_squares(const config::Options& options) {
  if (!options.adascale.on) return zero::Squares::none;
  return options.optimizer.kind == "adamw" ? zero::Squares::weighted : zero::Squares::plain;
}

namespace {

/// Of a world like this one that has so many ranks: as this one's nodes are, or as comm.ranks_per_node plays them, or one
/// node.
int ranks_per_node(const comm::World& world, const config::Options& options, int ranks) {
  if (ranks == world.size()) return world.topology().ranks_per_node();
  return options.comm.ranks_per_node > 0 ? options.comm.ranks_per_node : ranks;
}

}  // namespace

zero::EngineOptions engine_options(const config::Options& options, int ranks, int ranks_per_node, Purpose purpose) {
  const bool training = purpose == Purpose::train, decoding = purpose == Purpose::generate;
  zero::EngineOptions engine;
  engine.model = options.model;
  engine.dtype = dtype_named(options.train.dtype);
  engine.capacity = {decoding ? 1 : options.batch.micro, options.model.block_size, training, decoding};
  engine.capacity.checkpoint_interval = options.activation.checkpoint_interval;
  engine.optimizer = options.optimizer;
  engine.zero = options.zero;
  if (decoding) engine.zero.stage = 0;  // one rank continues a text by itself
  if (engine.zero.hpz_size == zero::ZeroOptions::whole_node) {
    require_input(ranks_per_node > 0,
                  "zero.hpz_size = node, but nodes have different numbers of ranks; allowed: off, a number");
    engine.zero.hpz_size = static_cast<std::size_t>(ranks_per_node);
  }
  engine.gradients.message_elements = static_cast<std::size_t>(options.comm.bucket_mb * 1e6 / sizeof(float));
  engine.gradients.overlap = options.comm.overlap;
  engine.gradients.collectives =
      options.comm.collectives == "native" ? comm::Collectives::native : comm::Collectives::reproducible;
  engine.gradients.dtype = dtype_named(options.comm.reduce_dtype);
  engine.gradients.squares = measured_squares(options);
  // Without training nothing is summed over micro-batches: the ranks share the samples out as they like.
  engine.micro_batches = training ? options.batch.global / options.batch.micro : static_cast<std::size_t>(ranks);
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
  setup.engine = engine_options(setup.options, ranks, ranks_per_node(world, options, ranks), purpose);
  const auto besides = [&](zero::Engine& engine, Memory& memory) {
    if (purpose == Purpose::train) take_checkpoint_copy(setup.options, engine, memory);
  };
  setup.plan = plan::memory(setup.engine, ranks == world.size() ? world.all().rank() : 0, ranks, besides);
  const int on_node = ranks == world.size() ? world.node().size() : 1;
  const std::string problem =
      plan::why_too_large(setup.engine, ranks, plan::available_bytes(options.memory_limit_gib, on_node), besides);
  require_input(problem.empty(), problem);
  return setup;
}

namespace {

zero::Placement placement(const Setup& setup, comm::World& world) {
  const std::size_t neighbours = setup.engine.zero.hpz_size;
  const bool near = setup.engine.zero.stage == 3 && zero::has_secondary(neighbours, world.size());
  return {world.all().rank(), world.all().size(), &world.all(),
          near ? &world.neighbours(static_cast<int>(neighbours)) : nullptr};
}

}  // namespace

Machine::Machine(const Setup& setup, comm::World& world)
    : memory(setup.plan.bytes), engine(setup.engine, placement(setup, world), memory) {}

}  // namespace shoal::app
