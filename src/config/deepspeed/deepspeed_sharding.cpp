// SPDX-License-Identifier: Apache-2.0
// Translates keys that change where and how a training is computed: ZeRO, offload, activation checkpointing.
#include "config/deepspeed/deepspeed_file.hpp"
#include "shoal/zero/stages.hpp"

namespace shoal::config {

namespace {

using Count = std::uint64_t;

const std::string zero_block = "zero_optimization.";

/// DeepSpeed counts the elements of a message; here gradients and master parameters have 4 bytes each.
void translate_buckets(DeepSpeedFile& file) {
  const std::string reduce = zero_block + "reduce_bucket_size", old_gather = "allgather_size";
  const std::string gather = file.has_old_zero() ? old_gather : zero_block + "allgather_bucket_size";
  if (!file.has_old_zero() && file.has(old_gather)) {
    file.note(old_gather, "no effect: DeepSpeed reads it only with \"zero_optimization\": true");
  }
  const auto megabytes = [&](const std::string& path) { return 4e-6 * static_cast<double>(file.value(path, Count{0})); };
  const bool reduces = file.has(reduce);
  if (reduces) file.set("comm.bucket_mb", megabytes(reduce), reduce);
  if (!file.has(gather)) return;
  if (!reduces) return file.set("comm.bucket_mb", megabytes(gather), gather);
  if (megabytes(gather) != megabytes(reduce)) {
    file.note(gather, "no effect: comm.bucket_mb is the size of all messages, and follows reduce_bucket_size");
  }
}

/// Keys that only stage 3 uses.
void translate_stage_3(DeepSpeedFile& file, bool stage_3, const std::string& stage) {
  const std::string live = zero_block + "stage3_max_live_parameters",
                    persist = zero_block + "stage3_param_persistence_threshold",
                    prefetch = zero_block + "stage3_prefetch_bucket_size";
  for (const std::string& path : {live, persist, prefetch}) {
    if (!stage_3 && file.has(path)) file.note(path, "no effect: zero.stage = ", stage);
  }
  if (!stage_3) return;
  if (file.has(live) && file.value(live, Count{0}) == 0) {
    file.imply("zero.prefetch_units", Count{0}, live);
    file.note(live, "no unit is gathered ahead: zero.prefetch_units = 0, unless a deck sets it");
  } else if (file.has(live)) {
    const double bytes = static_cast<double>(size_of(file.chosen_named<DType>("train.dtype")));
    file.set("zero.max_live_mb", 1e-6 * bytes * static_cast<double>(file.value(live, Count{0})), live);
  }
  if (file.has(persist)) {
    file.set("zero.persist_below", file.value(persist, Count{0}), persist);
    file.note(persist, "DeepSpeed keeps smaller tensors whole; here units of fewer elements stay whole");
  }
  if (file.has(prefetch)) {
    file.rest.prefetch_elements = file.value(prefetch, Count{0});
    file.rest.prefetch_place = file.place(prefetch);
  }
}

}  // namespace

void translate_zero(DeepSpeedFile& file) {
  const auto stage = std::get<std::int64_t>(file.chosen("zero.stage"));
  const bool stage_3 = zero::stages.at(static_cast<std::size_t>(stage)).shards_parameters;
  translate_buckets(file);
  translate_stage_3(file, stage_3, text(stage));
  const std::string weights = zero_block + "zero_quantized_weights", gradients = zero_block + "zero_quantized_gradients";
  if (file.has(weights)) file.set("zero.qwz", std::string(file.value(weights, false) ? "8" : "off"), weights);
  if (file.has(gradients)) file.set("zero.qgz", std::string(file.value(gradients, false) ? "4" : "off"), gradients);
  const std::string hpz = zero_block + "zero_hpz_partition_size";
  if (!file.has(hpz)) return;
  const Count ranks = file.value(hpz, Count{1});
  if (ranks > 1 && !stage_3) {
    return file.problem(hpz, "needs zero.stage = 3, but the stage is ", stage, "; allowed: 0 or 1 (off)");
  }
  file.set("zero.hpz_size", ranks <= 1 ? std::string("off") : text(ranks), hpz);
}

void translate_offload(DeepSpeedFile& file) {
  const std::string optimizer = zero_block + "offload_optimizer.", params = zero_block + "offload_param.";
  bool nvme = false;
  std::string directory;
  const auto each = [&](const std::string& block, const char* option) {
    const auto device = file.value(block + "device", std::string("none"));
    if (file.has(block + "device")) file.set(option, device, block + "device");
    nvme = nvme || device == "nvme";
    const std::string path = block + "nvme_path";
    if (!file.has(path)) return;
    if (device != "nvme") return file.note(path, "no effect: the device is ", device);
    if (!directory.empty() && directory != file.value(path, directory)) {
      return file.problem(path, "differs from offload_optimizer.nvme_path = ", shown(directory),
                          "; allowed: the same directory (nvme.dir)");
    }
    if (directory.empty()) file.set("nvme.dir", file.value(path, directory), path);
    directory = file.value(path, directory);
  };
  each(optimizer, "offload.optimizer");
  each(params, "offload.params");
  const std::string ratio = optimizer + "ratio";
  if (file.has(ratio) && std::get<std::string>(file.chosen("offload.optimizer")) == "none") {
    file.note(ratio, "no effect: the device is none");
  } else if (file.has(ratio)) {
    file.set("offload.optimizer_ratio", file.value(ratio, 1.0), ratio);
  }
  for (const std::string path : {"aio.block_size", "aio.queue_depth"}) {
    if (!file.has(path)) continue;
    if (!nvme) {
      file.note(path, "no effect: nothing is offloaded to NVMe");
    } else if (path == "aio.block_size") {
      file.set("nvme.block_mb", 1e-6 * static_cast<double>(file.value(path, Count{0})), path);
    } else {
      file.set("nvme.queue_depth", file.value(path, Count{0}), path);
    }
  }
}

/// In DeepSpeed the code of the model chooses which activations are checkpointed, and this block only how. Here the block
/// switches checkpointing on: number_checkpoints times over the depth, or at every block.
void translate_activations(DeepSpeedFile& file) {
  const std::string block = "activation_checkpointing.", number = block + "number_checkpoints",
                    partition = block + "partition_activations", cpu = block + "cpu_checkpointing";
  if (file.has(partition)) file.set("activation.partition", file.value(partition, false), partition);
  if (file.has(cpu)) file.set("activation.offload", file.value(cpu, false), cpu);
  const Count layers = file.others().model.n_layer, checkpoints = file.value(number, Count{0});
  if (checkpoints > 0) {
    const Count interval = (layers + checkpoints - 1) / checkpoints;
    file.imply("activation.checkpoint_interval", interval, number);
    file.note(number, "for model.n_layer = ", layers, ": activation.checkpoint_interval = ", interval);
  } else if (file.value(partition, false) || file.value(cpu, false)) {
    const std::string path = file.value(partition, false) ? partition : cpu;
    file.imply("activation.checkpoint_interval", Count{1}, path);
    file.note(path, "activation.checkpoint_interval = 1: every block, unless a deck sets it");
  }
}

}  // namespace shoal::config
