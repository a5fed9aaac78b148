// SPDX-License-Identifier: Apache-2.0
// The keys of sharding, offload and activation checkpointing.
#include "config/deepspeed/deepspeed_rows.hpp"

namespace shoal::config {

Keys zero_keys() {
  const char* const flat = "gradients are always stored in one flat buffer per unit";
  const char* const one = "comm.collectives chooses the algorithm of all collectives";
  const char* const whole = "checkpoints contain whole fp32 tensors";
  return {
      block("zero_optimization"),
      option("zero_optimization.stage", "zero.stage"),
      option("zero_optimization.overlap_comm", "comm.overlap"),
      used("zero_optimization.reduce_bucket_size", a_count, elements),
      used("zero_optimization.allgather_bucket_size", a_count, elements),
      used("zero_optimization.stage3_prefetch_bucket_size", a_count, some_elements),
      used("zero_optimization.stage3_max_live_parameters", a_count, some_elements),
      used("zero_optimization.stage3_param_persistence_threshold", a_count, some_elements),
      used("zero_optimization.zero_hpz_partition_size", a_count, between(0, 1048576)),
      used("zero_optimization.zero_quantized_weights", a_flag),
      used("zero_optimization.zero_quantized_gradients", a_flag),
      irrelevant("zero_optimization.contiguous_gradients", a_flag, flat),
      irrelevant("zero_optimization.round_robin_gradients", a_flag, flat),
      irrelevant("zero_optimization.reduce_scatter", a_flag, one),
      irrelevant("zero_optimization.allgather_partitions", a_flag, one),
      irrelevant("zero_optimization.use_multi_rank_bucket_allreduce", a_flag, one),
      irrelevant("zero_optimization.stage3_use_all_reduce_for_fetch_params", a_flag, one),
      irrelevant("zero_optimization.stage3_allgather_sequential", a_flag, one),
      irrelevant("zero_optimization.stage3_module_granularity_threshold", a_count, "units are transformer blocks"),
      irrelevant("zero_optimization.stage3_max_reuse_distance", a_count,
                 "zero.reshard_after_forward and zero.max_live_mb decide when a unit is released"),
      irrelevant("zero_optimization.sub_group_size", a_count, "the optimizer goes through the units one by one"),
      irrelevant("zero_optimization.stage3_gather_16bit_weights_on_model_save", a_flag,
                 "checkpoints and output.export contain whole tensors"),
      irrelevant("zero_optimization.load_from_fp32_weights", a_flag, whole),
      irrelevant("zero_optimization.elastic_checkpoint", a_flag, whole),
      irrelevant("zero_optimization.pipeline_loading_checkpoint", a_flag, whole),
      irrelevant("zero_optimization.ignore_unused_parameters", a_flag, "every parameter has a gradient"),
      irrelevant("zero_optimization.memory_efficient_linear", a_flag, "weights are never copied for backward"),
      irrelevant("zero_optimization.override_module_apply", a_flag, "there are no Python modules"),
      irrelevant("zero_optimization.log_trace_cache_warnings", a_flag, "there is no cache: the order of units is fixed"),
      irrelevant("zero_optimization.enable_sanity_checks", a_flag, "checks are always on"),
      irrelevant("zero_optimization.save_muon_momentum_buffer_in_memory", a_flag, "there is no Muon"),
      idle_block("zero_optimization.leaf_module", "units are transformer blocks"),
      irrelevant("zero_optimization.compute_grad_norm", a_flag, "the norm of the gradients is always computed"),
      irrelevant("zero_optimization.parameter_alignment", a_flag, flat),
      irrelevant("zero_optimization.stage3_partition_stream_chunk_size", a_count,
                 "no rank holds whole parameters at the start"),
      absent("zero_optimization.stage3_model_persistence_threshold", a_count, {}),
      absent("zero_optimization.legacy_stage1", a_flag, {"false"}),
      absent("zero_optimization.zero_quantized_nontrainable_weights", a_flag, {"false"}),
      feature("zero_optimization.zenflow"),
  };
}

Keys offload_keys() {
  const char* const counted = "the program sizes its buffers itself";
  Keys keys = {
      irrelevant("zero_optimization.offload_optimizer.pipeline_read", a_flag, "reading and computing always overlap"),
      irrelevant("zero_optimization.offload_optimizer.pipeline_write", a_flag, "writing and computing always overlap"),
      used("zero_optimization.offload_optimizer.ratio", a_real, between(0, 1)),
      irrelevant("zero_optimization.offload_optimizer.cpuadam_cores_perc", a_real,
                 "train.threads sets the number of threads", between(0, 1)),
      absent("zero_optimization.offload_optimizer.super_offload", a_flag, {"false"}),
      irrelevant("zero_optimization.offload_optimizer.fast_init", a_flag, "states are initialized once"),
      irrelevant("zero_optimization.offload_optimizer.convert_grad_on_cpu", a_flag, "gradients keep comm.reduce_dtype"),
      irrelevant("zero_optimization.offload_param.buffer_size", a_count, counted),
      irrelevant("zero_optimization.offload_param.max_in_cpu", a_count, counted),
      block("aio"),
      used("aio.block_size", a_count, between(1, most_elements)),
      used("aio.queue_depth", a_count, between(1, 4096)),
      irrelevant("aio.thread_count", a_count, counted),
      irrelevant("aio.intra_op_parallelism", a_count, counted),
      irrelevant("aio.single_submit", a_flag, counted),
      irrelevant("aio.overlap_events", a_flag, counted),
      absent("aio.use_gds", a_flag, {"false"}),
      block("activation_checkpointing"),
      used("activation_checkpointing.partition_activations", a_flag),
      used("activation_checkpointing.cpu_checkpointing", a_flag),
      used("activation_checkpointing.number_checkpoints", a_count, between(1, 65536)),
      irrelevant("activation_checkpointing.contiguous_memory_optimization", a_flag,
                 "kept activations have their own memory"),
      irrelevant("activation_checkpointing.synchronize_checkpoint_boundary", a_flag, "nothing runs asynchronously there"),
      irrelevant("activation_checkpointing.profile", a_flag, "the trace has the time of every part of a step"),
  };
  for (const char* const name : {"offload_optimizer", "offload_param"}) {
    const std::string path = std::string("zero_optimization.") + name;
    keys.push_back(block(path.c_str()));
    keys.push_back(used((path + ".device").c_str(), a_text, one_of({"none", "cpu", "nvme"})));
    keys.push_back(used((path + ".nvme_path").c_str(), a_text, not_empty()));
    keys.push_back(irrelevant((path + ".pin_memory").c_str(), a_flag, "host memory is pinned if a device needs it"));
    keys.push_back(irrelevant((path + ".buffer_count").c_str(), a_count, counted));
  }
  return keys;
}

}  // namespace shoal::config
