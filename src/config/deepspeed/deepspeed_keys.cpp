// SPDX-License-Identifier: Apache-2.0
// A row for every key of DeepSpeed 0.19 (deepspeed/runtime/config.py and the classes that it reads blocks with).
#include "config/deepspeed/deepspeed_keys.hpp"

#include "config/deepspeed/deepspeed_rows.hpp"

namespace shoal::config {

namespace {

Keys top_keys() {
  const char* const flat = "gradients are always scaled before they are summed";
  const char* const metrics = "metrics.jsonl in output.dir has the loss and the rate of every step";
  const char* const one_file = "all ranks write one file, in checkpoint.dir";
  const Value& text = a_text;
  return {
      used("train_batch_size", a_count, between(1, most_samples)),
      used("train_micro_batch_size_per_gpu", a_count, between(1, most_samples)),
      used("gradient_accumulation_steps", a_count, between(1, most_samples)),
      used("steps_per_print", a_count, between(1, most_steps)),
      used("gradient_clipping", a_real, at_least(0)),
      option("communication_data_type", "comm.reduce_dtype"),
      option("dataloader_drop_last", "data.drop_last"),
      used("allgather_size", a_count, elements),
      block("data_types"),
      option("data_types.grad_accum_dtype", "comm.reduce_dtype"),
      absent("data_types.param_dtype", text, {}),
      absent("data_types.buffer_dtype", text, {}),
      irrelevant("prescale_gradients", a_flag, flat),
      irrelevant("gradient_predivide_factor", a_real, flat),
      absent("gradient_allreduce_op", text, {"mean"}, "gradients are averaged", one_of({"mean", "sum"})),
      absent("managed_gradient_accumulation", a_flag, {"true"}),
      absent("disable_allgather", a_flag, {"false"}),
      absent("seq_parallel_communication_data_type", text, {"fp32"}),
      absent("sequence_parallel_size", a_count, {"1"}),
      absent("use_data_before_expert_parallelism", a_flag, {"false"}),
      irrelevant("zero_allow_untested_optimizer", a_flag, "every optimizer here is tested with every stage"),
      irrelevant("zero_force_ds_cpu_optimizer", a_flag, "there is one implementation of each optimizer"),
      irrelevant("wall_clock_breakdown", a_flag, "the trace has the time of every part of a step"),
      irrelevant("memory_breakdown", a_flag, "the log and the trace show the memory of each kind of data"),
      irrelevant("dump_state", a_flag, "the log, the checkpoints and the trace contain all options"),
      irrelevant("log_level", text, "the log has one level"),
      irrelevant("disable_python_gc", a_flag, "there is no Python"),
      irrelevant("vocabulary_size", a_count, "DeepSpeed uses it only for a warning; model.vocab_size is the model's"),
      block("comms_logger"),
      irrelevant("comms_logger.enabled", a_flag, "the trace has every message, unless trace.level = off or steps"),
      irrelevant("comms_logger.verbose", a_flag, "the trace has every message"),
      irrelevant("comms_logger.prof_all", a_flag, "the trace has every message"),
      irrelevant("comms_logger.debug", a_flag, "the trace has every message"),
      list("comms_logger.prof_ops"),
      irrelevant("comms_logger.prof_ops[]", text, "the trace has every message"),
      block("csv_monitor"),
      irrelevant("csv_monitor.enabled", a_flag,
                 "metrics.jsonl in output.dir always has the loss and the rate of every step"),
      irrelevant("csv_monitor.output_path", text, "metrics.jsonl is in output.dir"),
      irrelevant("csv_monitor.job_name", text, "metrics.jsonl is in output.dir"),
      idle_block("tensorboard", metrics),
      idle_block("wandb", metrics),
      idle_block("comet", metrics),
      idle_block("comms_config", "DeepSpeed does not read it"),
      idle_block("monitor_config", "DeepSpeed does not read it"),
      block("checkpoint"),
      irrelevant("checkpoint.tag_validation", text, one_file),
      irrelevant("checkpoint.load_universal", a_flag, "every checkpoint can be read on any number of ranks"),
      block("checkpoint.parallel_write"),
      irrelevant("checkpoint.parallel_write.pipeline_stage", a_flag, one_file),
      irrelevant("checkpoint.use_node_local_storage", a_flag, one_file),
      irrelevant("checkpoint.checkpoint_serialization", a_flag, "checkpoints are HDF5"),
      idle_block("checkpoint.writer", one_file),
      feature("torch_autocast", "use bf16 or fp16, which apply to all parameters and activations"),
      idle_block("flops_profiler", "the log has the share of the peak that a step reaches"),
      feature("activation_offload"),
      idle_block("pipeline", "DeepSpeed uses it only for a PipelineModule"),
      feature("data_efficiency"),
      feature("weight_quantization"),
      feature("autotuning"),
      feature("datastates_ckpt"),
      feature("hybrid_engine"),
      feature("compile"),
      idle_block("timers", "the trace has the time of every part of a step"),
      feature("tensor_parallel"),
      feature("expert_parallel"),
  };
}

/// Keys that DeepSpeed 0.19.8 refuses, because without their features a run would differ from the one that was meant.
Keys removed_keys() {
  const char* const removed = "it has been removed from DeepSpeed";
  Keys keys = {
      refused("amp", "Apex has been removed from DeepSpeed; use fp16 or bf16"),
      refused("elasticity",
              "elastic training has been removed from DeepSpeed; give the batch sizes; a checkpoint can be resumed on any "
              "number of ranks"),
      refused("curriculum_learning", "it is the old form of data_efficiency.data_sampling.curriculum_learning"),
      refused("sparse_gradients", "it has been removed from DeepSpeed; gradients of embeddings are dense"),
      refused("zero_optimization.mics_shard_size", "MiCS has been removed from DeepSpeed; use zero_hpz_partition_size"),
      refused("zero_optimization.mics_hierarchical_params_gather", "MiCS has been removed from DeepSpeed"),
  };
  for (const char* const path : {"sparse_attention", "progressive_layer_drop", "eigenvalue", "compression_training",
                                 "quantize_training", "nebula", "graph_harvesting", "zero_optimization.zeropp_loco_param"}) {
    keys.push_back(refused(path, removed));
  }
  return keys;
}

Keys precision_keys() {
  return {
      block("fp16"),
      used("fp16.enabled", a_flag),
      irrelevant("fp16.auto_cast", a_flag, "tokens are whole numbers and are never cast"),
      used("fp16.loss_scale", a_real, at_least(0)),
      used("fp16.initial_scale_power", a_count, between(0, 127)),
      used("fp16.loss_scale_window", a_count, between(1, most_steps)),
      used("fp16.hysteresis", a_count, between(1, most_steps)),
      used("fp16.consecutive_hysteresis", a_flag),
      used("fp16.min_loss_scale", a_real),
      absent("fp16.fp16_master_weights_and_grads", a_flag, {"false"}, "master parameters are fp32"),
      block("bf16"),
      used("bf16.enabled", a_flag),
      irrelevant("bf16.immediate_grad_update", a_flag, "gradients are always used as soon as they are complete"),
      used("bf16.check_grad_overflow", a_flag),
      absent("bf16.bf16_master_weights_and_grads", a_flag, {"false"}, "master parameters are fp32"),
      absent("bf16.bf16_optimizer_states", a_flag, {"false"}, "moments are fp32"),
  };
}

Keys optimizer_keys() {
  const char* const one = "there is one implementation of each optimizer";
  return {
      block("optimizer"),
      used("optimizer.type", a_text),
      irrelevant("optimizer.legacy_fusion", a_flag, one),
      block("optimizer.params"),
      used("optimizer.params.lr", a_real, at_least(0)),
      list("optimizer.params.betas"),
      used("optimizer.params.betas[]", a_real, from_below(0, 1)),
      used("optimizer.params.eps", a_real, above(0)),
      used("optimizer.params.weight_decay", a_real, at_least(0)),
      used("optimizer.params.momentum", a_real, from_below(0, 1)),
      used("optimizer.params.nesterov", a_flag),
      used("optimizer.params.adam_w_mode", a_flag),
      used("optimizer.params.torch_adam", a_flag),
      absent("optimizer.params.bias_correction", a_flag, {"true"}),
      absent("optimizer.params.amsgrad", a_flag, {"false"}),
      absent("optimizer.params.dampening", a_real, {"0"}),
      absent("optimizer.params.maximize", a_flag, {"false"}),
      irrelevant("optimizer.params.fused", a_flag, one),
      irrelevant("optimizer.params.foreach", a_flag, one),
      irrelevant("optimizer.params.capturable", a_flag, one),
      irrelevant("optimizer.params.differentiable", a_flag, one),
      irrelevant("optimizer.params.set_grad_none", a_flag, "gradients are overwritten at every step"),
      absent("optimizer.params.fp32_optimizer_states", a_flag, {"true"}, "moments are fp32"),
      refused("optimizer.params.max_grad_norm", "use gradient_clipping, as in DeepSpeed"),
  };
}

Keys scheduler_keys() {
  Keys keys = {
      block("scheduler"),
      used("scheduler.type", a_text),
      block("scheduler.params"),
      absent("scheduler.params.last_batch_iteration", a_whole, {"-1"},
             "a resumed run continues at the step of its checkpoint"),
      used("scheduler.params.warmup_num_steps", a_count, between(0, most_steps)),
      used("scheduler.params.total_num_steps", a_count, between(1, most_steps)),
      used("scheduler.params.lr_range_test_min_lr", a_real, above(0)),
      used("scheduler.params.lr_range_test_step_size", a_count, between(1, most_steps)),
      used("scheduler.params.lr_range_test_step_rate", a_real, at_least(0)),
      used("scheduler.params.lr_range_test_staircase", a_flag),
  };
  const std::vector<std::pair<const char*, const char*>> as_the_option = {{"warmup_min_lr", "schedule.min_lr"},
                                                                          {"warmup_max_lr", "schedule.cycle_max_lr"},
                                                                          {"warmup_type", "schedule.warmup_kind"},
                                                                          {"warmup_min_ratio", "schedule.warmup_min_ratio"},
                                                                          {"cos_min_ratio", "schedule.cos_min_ratio"}};
  const auto as = [&](const std::string& name, const char* like) {
    DeepSpeedKey key = option(("scheduler.params." + name).c_str(), like);
    key.role = DeepSpeedKey::Role::used;
    key.allowed.word.clear();  // "auto" belongs to decks
    keys.push_back(key);
  };
  for (const auto& [name, like] : as_the_option) as(name, like);
  for (const Row& row : table()) {
    if (is_of_one_cycle(row)) as(key_of(row.name), row.name.c_str());
  }
  return keys;
}

/// Keys that DeepSpeed also takes without stage3_: fields of its DeepSpeedZeroConfig whose alias has it.
constexpr const char* with_two_names[] = {"prefetch_bucket_size",         "param_persistence_threshold",
                                          "model_persistence_threshold",  "max_live_parameters",
                                          "max_reuse_distance",           "gather_16bit_weights_on_model_save",
                                          "module_granularity_threshold", "use_all_reduce_for_fetch_params",
                                          "allgather_sequential"};

/// Deprecated forms and second names (deepspeed_old.cpp).
Keys old_keys() {
  Keys keys = {block("bfloat16")};
  const std::string zero = "zero_optimization.";
  for (DeepSpeedKey key : zero_keys()) {
    for (const std::string name : with_two_names) {
      if (key.path != zero + "stage3_" + name) continue;
      key.path = zero + name;
      keys.push_back(key);
    }
  }
  for (const char* const name :
       {"cpu_offload", "cpu_offload_param", "cpu_offload_use_pin_memory", "stage3_gather_fp16_weights_on_model_save"}) {
    keys.push_back(used((std::string("zero_optimization.") + name).c_str(), a_flag));
  }
  const std::string today = "bf16.";
  for (DeepSpeedKey key : precision_keys()) {
    if (!key.path.starts_with(today)) continue;
    key.path = "bfloat16." + key.path.substr(today.size());
    keys.push_back(key);
  }
  return keys;
}

}  // namespace

const std::vector<DeepSpeedKey>& deepspeed_keys() {
  static const Keys all = [] {
    Keys keys = top_keys();
    for (const Keys& more :
         {removed_keys(), old_keys(), precision_keys(), optimizer_keys(), scheduler_keys(), zero_keys(), offload_keys()}) {
      keys.insert(keys.end(), more.begin(), more.end());
    }
    return keys;
  }();
  return all;
}

}  // namespace shoal::config
