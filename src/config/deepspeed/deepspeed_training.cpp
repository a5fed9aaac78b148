// SPDX-License-Identifier: Apache-2.0
// Translates keys that change the results of a training: batch, precision, optimizer, scheduler.
#include <algorithm>
#include <limits>

#include "config/deepspeed/deepspeed_file.hpp"

namespace shoal::config {

namespace {

using optim::ScheduleKind;
using Count = std::uint64_t;

/// Sets the value in the file, or else DeepSpeed's default. "auto" leaves the option to the deck and to its own default.
template <typename T>
void set_or_imply(DeepSpeedFile& file, const std::string& option, const std::string& path, T deepspeeds,
                  const std::string& block) {
  if (file.has(path)) {
    file.set(option, file.value(path, deepspeeds), path);
  } else if (!file.is_auto(path)) {
    file.imply(option, deepspeeds, block);
  }
}

/// Reports parameters that the kind does not have, as Python does.
bool only_of(DeepSpeedFile& file, const std::string& block, const std::string& kind,
             const std::vector<std::string>& of_other_kinds) {
  bool good = true;
  for (const std::string& name : of_other_kinds) {
    if (!file.has(block + name)) continue;
    file.problem(block + name, "is not a parameter of ", kind);
    good = false;
  }
  return good;
}

void translate_adam(DeepSpeedFile& file, const std::string& type) {
  const std::string params = "optimizer.params.", block = "optimizer";
  if (!only_of(file, params, type, {"momentum", "nesterov"})) return;
  if (!file.is_auto("optimizer.type")) file.set("optimizer.kind", optim::OptimizerKind::adamw, "optimizer.type");
  const bool decoupled = lower(type) == "adamw" || file.value(params + "adam_w_mode", true);
  if (file.has(params + "adam_w_mode"))
    file.note(params + "adam_w_mode", decoupled ? "the weight decay is decoupled" : "no weight decay");
  const double torchs_decay = file.value(params + "torch_adam", false) && decoupled ? 0.01 : 0.0;
  if (file.has(params + "torch_adam")) file.note(params + "torch_adam", "affects only the default of weight_decay");
  if (!decoupled && file.value(params + "weight_decay", 0.0) != 0) {
    file.absent(params + "adam_w_mode", "the weight decay is decoupled, as with AdamW");
  }
  const auto has_beta = [&](const std::string& path) { return file.has(path) || file.is_auto(path); };
  const bool first = has_beta(params + "betas[0]"), second = has_beta(params + "betas[1]");
  if (file.has(params + "betas") && (!first || !second || file.has(params + "betas[2]"))) {
    return file.problem(params + "betas", "allowed: two numbers, [beta1, beta2]");
  }
  set_or_imply(file, "optimizer.beta1", params + "betas[0]", 0.9, block);
  set_or_imply(file, "optimizer.beta2", params + "betas[1]", 0.999, block);
  set_or_imply(file, "optimizer.epsilon", params + "eps", 1e-8, block);
  set_or_imply(file, "optimizer.weight_decay", params + "weight_decay", torchs_decay, block);
}

void translate_sgd(DeepSpeedFile& file) {
  const std::string params = "optimizer.params.", block = "optimizer";
  if (!only_of(file, params, "SGD", {"betas", "eps", "adam_w_mode", "torch_adam"})) return;
  if (!file.is_auto("optimizer.type")) file.set("optimizer.kind", optim::OptimizerKind::sgd, "optimizer.type");
  set_or_imply(file, "optimizer.momentum", params + "momentum", 0.0, block);
  set_or_imply(file, "optimizer.nesterov", params + "nesterov", false, block);
  set_or_imply(file, "optimizer.weight_decay", params + "weight_decay", 0.0, block);
}

/// A parameter of schedulers, and the option that it becomes.
struct SchedulerParameter {
  std::string name, option;
};

const std::vector<SchedulerParameter>& scheduler_parameters() {
  static const std::vector<SchedulerParameter> all = [] {
    std::vector<SchedulerParameter> parameters = {
        {"warmup_num_steps", "schedule.warmup_steps"}, {"warmup_type", "schedule.warmup_kind"},
        {"warmup_min_lr", "schedule.min_lr"},          {"warmup_max_lr", "schedule.warmup_max_lr"},
        {"total_num_steps", "schedule.total_steps"},   {"warmup_min_ratio", "schedule.warmup_min_ratio"},
        {"cos_min_ratio", "schedule.cos_min_ratio"},
    };
    for (const Row& row : table()) {
      if (is_of_one_cycle(row)) parameters.push_back({key_of(row.name), row.name});
    }
    return parameters;
  }();
  return all;
}

/// Returns true if schedules of this kind use the option, or else the option without which it has no effect.
bool is_of(ScheduleKind kind, const std::string& option) {
  const UsedBy& by = find(option)->used_by;
  if (by.option != "schedule.kind") return is_of(kind, by.option);
  return std::find(by.values.begin(), by.values.end(), name_of(kind)) != by.values.end();
}

Value any_value(const DeepSpeedFile& file, const std::string& path, const Value& type) {
  return std::visit([&](const auto& otherwise) -> Value { return file.value(path, otherwise); }, type);
}

std::vector<std::string> required_parameters(ScheduleKind kind) {
  if (kind == ScheduleKind::OneCycle) return {"cycle_min_lr", "cycle_max_lr"};
  return row_of(kind).has.decays ? std::vector<std::string>{"total_num_steps"} : std::vector<std::string>{};
}

/// Gives the warm-up the length that it has in DeepSpeed by default.
void imply_warmup(DeepSpeedFile& file, ScheduleKind kind) {
  constexpr Count deepspeeds_warmup = 1000;
  const Count total = std::get<Count>(file.chosen("schedule.total_steps"));  // 0: auto
  const bool too_long = row_of(kind).has.decays && total > 0 && total < deepspeeds_warmup;
  if (too_long && file.places().of("schedule.warmup_steps").empty()) {
    return file.problem("scheduler.type", "needs the parameter warmup_num_steps: DeepSpeed's default, ", deepspeeds_warmup,
                        ", is above total_num_steps = ", total);
  }
  file.imply("schedule.warmup_steps", deepspeeds_warmup, "scheduler.type");
}

void translate_schedule(DeepSpeedFile& file, ScheduleKind kind) {
  const std::string params = "scheduler.params.";
  std::vector<std::string> foreign = {"lr_range_test_min_lr", "lr_range_test_step_size", "lr_range_test_step_rate",
                                      "lr_range_test_staircase"};
  for (const SchedulerParameter& each : scheduler_parameters()) {
    if (!is_of(kind, each.option)) foreign.push_back(each.name);
  }
  if (!only_of(file, params, name_of(kind), foreign)) return;
  for (const std::string& name : required_parameters(kind)) {
    const bool chosen = file.has(params + name) || file.is_auto(params + name) || file.is_auto("scheduler.type");
    if (!chosen) file.problem("scheduler.type", "needs the parameter ", name);
  }
  if (!file.is_auto("scheduler.type")) file.set("schedule.kind", kind, "scheduler.type");
  const bool momentum_off = !file.value(params + "cycle_momentum", true);
  for (const SchedulerParameter& each : scheduler_parameters()) {
    if (!is_of(kind, each.option) || !file.has(params + each.name)) continue;
    if (momentum_off && find(each.option)->used_by.option == "schedule.cycle_momentum") {
      file.note(params + each.name, "no effect: cycle_momentum = false");
      continue;
    }
    file.set(each.option, any_value(file, params + each.name, find_deepspeed(params + each.name)->type), params + each.name);
  }
  const std::string warmup = params + "warmup_num_steps";
  const bool open = file.is_auto(warmup) || file.is_auto("scheduler.type");
  if (kind != ScheduleKind::OneCycle && !file.has(warmup) && !open) imply_warmup(file, kind);
  // Hugging Face's Trainer fills in its learning rate there; DeepSpeed's default would be 0.001.
  const std::string highest = params + "warmup_max_lr";
  if (kind == ScheduleKind::WarmupDecayLR && file.is_auto(highest)) {
    file.imply("schedule.warmup_max_lr", file.chosen("optimizer.lr"), highest);
  }
  if (file.has(warmup) && file.value(warmup, Count{0}) == 0) {
    file.problem(warmup, "DeepSpeed 0.19.3 and newer refuse it; older versions took 2 for it: write 2 to train as they did");
  }
  const std::string stairs = params + "cycle_second_stair_count";
  if (file.has(stairs) && file.value(stairs, Count{0}) == 0 &&
      file.value(params + "cycle_first_stair_count", Count{0}) > 0) {
    file.absent(stairs, "here 0 means as many stairs as in the rising part");
  }
}

/// Keys of fp16 that only a dynamic loss scale uses.
void translate_dynamic_scale(DeepSpeedFile& file, bool dynamic) {
  const auto each = [&](const char* key, const char* option, auto type) {
    const std::string path = std::string("fp16.") + key;
    if (!file.has(path)) return;
    if (dynamic) return file.set(option, file.value(path, type), path);
    file.note(path, "no effect: the loss scale is fixed");
  };
  each("initial_scale_power", "train.loss_scale_power", Count{0});
  each("loss_scale_window", "train.loss_scale_window", Count{0});
  each("hysteresis", "train.loss_scale_hysteresis", Count{0});
  each("consecutive_hysteresis", "train.loss_scale_consecutive_hysteresis", false);
  const std::string minimum = "fp16.min_loss_scale";
  if (!dynamic || file.value(minimum, 1.0) > 0) return each("min_loss_scale", "train.loss_scale_minimum", 0.0);
  file.set("train.loss_scale_minimum", static_cast<double>(std::numeric_limits<float>::min()), minimum);
  file.note(minimum, "no minimum: train.loss_scale_minimum is the smallest normal number of fp32");
}

/// By default DeepSpeed sums gradients in the precision of the parameters; our default is fp32.
void note_reduction(DeepSpeedFile& file, DType dtype) {
  const bool said = file.has("communication_data_type") || file.is_auto("communication_data_type") ||
                    file.has("data_types.grad_accum_dtype") || !file.places().of("comm.reduce_dtype").empty();
  if (said || dtype == DType::f32) return;
  file.note_of_file(
      text("communication_data_type is absent: comm.reduce_dtype = fp32, while DeepSpeed would use ", name_of(dtype)));
}

}  // namespace

bool has_optimizer(const std::string& type) {
  return type == "auto" || type == "SGD" || lower(type) == "adam" || lower(type) == "adamw";
}

bool has_scheduler(const std::string& type) {
  const auto kind = value_named<ScheduleKind>(type);
  return type == "auto" || (kind && row_of(*kind).has.deepspeed);
}

void translate_batch(DeepSpeedFile& file) {
  const std::string global = "train_batch_size", micro = "train_micro_batch_size_per_gpu",
                    accumulation = "gradient_accumulation_steps";
  const auto said = [&](const char* option) { return !file.places().of(option).empty(); };
  if (!file.has(global) && !file.has(micro)) {
    const bool of_deck = file.is_auto(global) || file.is_auto(micro) || said("batch.global") || said("batch.micro");
    if (!of_deck) {
      return file.lacks("neither " + global + " nor " + micro +
                        " is given; one of them is required, or batch.global or batch.micro in the deck");
    }
    // The deck's global batch is not divided into one micro-batch per rank, unless accumulation asks for it.
    const bool derived = file.has(accumulation) && said("batch.global");
    if (!derived) file.imply("batch.micro", file.chosen("batch.micro"), micro);
  }
  if (file.has(global)) file.set("batch.global", file.value(global, Count{0}), global);
  if (file.has(micro)) file.set("batch.micro", file.value(micro, Count{0}), micro);
  if (file.has(accumulation)) {
    file.rest.accumulation = file.value(accumulation, Count{0});
    file.rest.accumulation_place = file.place(accumulation);
  }
}

/// How often the log has a line changes no result, so a deck that says it need not agree.
void translate_display(DeepSpeedFile& file) {
  const std::string path = "steps_per_print";
  if (!file.has(path)) return;
  const Count steps = file.value(path, Count{1}), of_deck = file.others().train.log_every;
  const std::string deck = file.places().of("train.log_every");
  if (!deck.empty() && deck != "command line" && steps != of_deck) {
    return file.note(path, "no effect: train.log_every = ", of_deck, " in ", deck);
  }
  file.set("train.log_every", steps, path);
}

void translate_precision(DeepSpeedFile& file) {
  const bool fp16 = file.value("fp16.enabled", false), bf16 = file.value("bf16.enabled", false);
  if (fp16 && bf16) return file.problem("fp16.enabled", "bf16.enabled = true too; only one of them can be true");
  if (fp16) {
    file.set("train.dtype", DType::f16, "fp16.enabled");
    // DeepSpeed skips a step whose loss is not finite, as it does after an overflow.
    file.imply("train.on_nan", std::string(name_of(OnNan::skip)), "fp16.enabled");
  }
  if (bf16) file.set("train.dtype", DType::bf16, "bf16.enabled");
  const bool from_command_line = file.places().of("train.dtype") == "command line";
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const std::string enabled = std::string(name_of(dtype)) + ".enabled";
    const bool off = file.has(enabled) && !file.value(enabled, false);
    if (!off || file.others().train.dtype != dtype || from_command_line) continue;
    file.problem(enabled, "contradicts train.dtype = ", name_of(dtype), " in ", file.places().of("train.dtype"));
  }
  const auto dtype = file.chosen_named<DType>("train.dtype");
  const std::string no_effect = std::string("no effect: train.dtype = ") + name_of(dtype);
  note_reduction(file, dtype);
  if (file.has("bf16.check_grad_overflow")) {
    const bool checks = file.value("bf16.check_grad_overflow", true);
    if (checks && dtype == DType::bf16) {
      file.set("train.on_nan", OnNan::skip, "bf16.check_grad_overflow");
    } else {
      file.note("bf16.check_grad_overflow",
                dtype == DType::bf16 ? "gradients are checked in any case; see train.on_nan" : no_effect);
    }
  }
  if (dtype != DType::f16) {
    for (const char* const key : {"loss_scale", "initial_scale_power", "loss_scale_window", "hysteresis",
                                  "consecutive_hysteresis", "min_loss_scale"}) {
      const std::string path = std::string("fp16.") + key;
      if (file.has(path)) file.note(path, no_effect);
    }
    return;
  }
  if (file.has("fp16.loss_scale")) file.set("train.loss_scale", file.value("fp16.loss_scale", 0.0), "fp16.loss_scale");
  translate_dynamic_scale(file, std::get<double>(file.chosen("train.loss_scale")) == 0);
}

void translate_optimizer(DeepSpeedFile& file) {
  if (file.has("gradient_clipping")) {
    file.set("train.grad_clip", file.value("gradient_clipping", 1.0), "gradient_clipping");
  } else if (file.places().of("train.grad_clip").empty() && !file.is_auto("gradient_clipping")) {
    file.note_of_file(
        "gradient_clipping is absent: train.grad_clip = 1, the default of DeepSpeed 0.19 (until 0.16 it was 0: no "
        "clipping)");
  }
  if (!file.has("optimizer")) return;
  const bool of_deck = file.is_auto("optimizer.type");
  if (!of_deck && !file.has("optimizer.type")) {
    return file.problem("optimizer", "no type; allowed: Adam, AdamW, SGD");
  }
  const bool deck_has_sgd = file.chosen_named<optim::OptimizerKind>("optimizer.kind") == optim::OptimizerKind::sgd;
  const auto type = file.value("optimizer.type", std::string(deck_has_sgd ? "SGD" : "AdamW"));
  const std::vector<std::string> elsewhere = {"Adagrad", "Lamb",    "OneBitAdam", "OneBitLamb", "ZeroOneAdam",
                                              "MuAdam",  "MuAdamW", "MuSGD",      "Lion",       "Muon"};
  if (!has_optimizer(type)) {
    for (const std::string& name : elsewhere) {
      if (lower(name) == lower(type)) return file.absent("optimizer.type", "available: Adam, AdamW, SGD");
    }
    const std::string close = nearest(type, {"Adam", "AdamW", "SGD"});
    return file.problem("optimizer.type", "no such optimizer", close.empty() ? ";" : "; did you mean " + close + "?",
                        " allowed: Adam, AdamW, SGD");
  }
  if (type == "SGD") {
    translate_sgd(file);
  } else {
    translate_adam(file, type);
  }
  constexpr double deepspeeds_rate = 0.001;
  set_or_imply(file, "optimizer.lr", "optimizer.params.lr", deepspeeds_rate, "optimizer");
  if (file.value("optimizer.params.weight_decay", 0.0) > 0) {
    file.imply("optimizer.decay_1d", true, "optimizer.params.weight_decay");
    file.note("optimizer.params.weight_decay",
              "DeepSpeed applies it to all parameters, also to biases and norms: optimizer.decay_1d = true, unless a deck "
              "sets it");
  }
}

void translate_scheduler(DeepSpeedFile& file) {
  if (!file.has("scheduler")) return;
  std::vector<std::string> kinds;
  for (const optim::ScheduleRow& kind : optim::schedule_kinds) {
    if (kind.has.deepspeed) kinds.emplace_back(kind.name);
  }
  if (file.is_auto("scheduler.type")) {
    const auto of_deck = file.chosen_named<ScheduleKind>("schedule.kind");
    if (row_of(of_deck).has.deepspeed) return translate_schedule(file, of_deck);
    return file.note("scheduler", "no effect: schedule.kind = ", name_of(of_deck));
  }
  if (!file.has("scheduler.type")) return file.problem("scheduler", "no type; allowed: ", joined(kinds));
  const auto type = file.value("scheduler.type", std::string());
  if (type == "LRRangeTest") return file.absent("scheduler.type", "available: " + joined(kinds));
  if (has_scheduler(type)) return translate_schedule(file, value_named<ScheduleKind>(type).value());
  const std::string close = nearest(type, kinds);
  file.problem("scheduler.type", "no such scheduler", close.empty() ? ";" : "; did you mean " + close + "?",
               " allowed: ", joined(kinds));
}

}  // namespace shoal::config
