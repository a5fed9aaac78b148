// SPDX-License-Identifier: Apache-2.0
#include "app/setup/engine_options.hpp"

#include "shoal/base/error.hpp"
#include "shoal/comm/gpu_aware.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/sync/schedule.hpp"

namespace shoal::app {

zero::Squares measured_squares(const config::Options& options) {
  if (!options.adascale.on) return zero::Squares::none;
  return options.optimizer.kind == optim::OptimizerKind::adamw ? zero::Squares::weighted : zero::Squares::plain;
}

zero::EngineOptions engine_options(const config::Options& options, const RankLayout& division, Purpose purpose) {
  const bool training = purpose == Purpose::train, decoding = purpose == Purpose::generate;
  zero::EngineOptions engine;
  engine.model = options.model;
  engine.dtype = options.train.dtype;
  engine.capacity = {decoding ? 1 : options.batch.micro, options.model.block_size, training, decoding};
  engine.capacity.fused_gelu = options.train.fused_gelu;
  engine.capacity.checkpoint_interval = options.activation.checkpoint_interval;
  engine.optimizer = options.optimizer;
  engine.zero = options.zero;
  if (training) {
    engine.offload = options.offload;
    engine.zero.gathers_alone = !device::kernels_reach(options.offload.params);
  }
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
  const bool nodes_differ = training && sync::trains_locally(options.sync) && division.sync_group_size < division.ranks;
  engine.sends_masters = nodes_differ;
  engine.gradients.sends_shards = nodes_differ && options.sync.warmup_steps > 0;
  engine.images = device::images_for(comm::reach_of(options.comm));
  // Without training nothing is summed over micro-batches, so any number will do.
  const auto ranks = static_cast<std::size_t>(division.ranks),
             groups = ranks / static_cast<std::size_t>(division.sync_group_size);
  engine.micro_batches = training ? options.batch.global / options.batch.micro / groups : ranks;
  engine.grad_clip = options.train.grad_clip;
  engine.seed = options.train.seed;
  return engine;
}

std::size_t turns_of(const zero::EngineOptions& engine, const RankLayout& division) {
  return zero::AccumulationPlan(engine.micro_batches, division.sync_group_size, false, false).turns();
}

}  // namespace shoal::app
