// SPDX-License-Identifier: Apache-2.0
// Options that change the numbers of a training: model, data, batch, train, optimizer, schedule.
#include "rows.hpp"

namespace shoal::config {

using data::DataOptions;
using model::ModelOptions;
using optim::AdaScaleOptions;
using optim::LossScaleOptions;
using optim::OptimizerOptions;
using optim::ScheduleOptions;

namespace {

// Ids of tokens are 32 bits and signed; steps and samples key the random numbers with 32 bits each.
constexpr double most_tokens = 2147483647, most_steps = 4294967295, most_samples = 4294967295;
// Far beyond any model, and small enough that no count of elements overflows.
constexpr double most_layers = 1024, most_width = 1048576, most_positions = 16777216;

std::vector<Row> model_rows() {
  const UsedBy gpt = {"model.kind", {name_of(model::ModelKind::gpt)}};
  return {
      {"model.kind", in(&Options::model, &ModelOptions::kind), "", one_of(names<model::ModelKind>()),
       "GPT-2's architecture, or a small classifier"},
      {"model.n_layer", in(&Options::model, &ModelOptions::n_layer), "blocks", between(1, most_layers), "depth"},
      {"model.n_head", in(&Options::model, &ModelOptions::n_head), "heads", between(1, most_width),
       "attention heads of a block; must divide n_embd", gpt},
      {"model.n_embd", in(&Options::model, &ModelOptions::n_embd), "elements", between(1, most_width),
       "width of the residual stream"},
      {"model.n_inner", in(&Options::model, &ModelOptions::n_inner), "elements", between(1, most_width).or_word("auto"),
       "width inside a block's MLP; auto: 4 n_embd"},
      {"model.block_size", in(&Options::model, &ModelOptions::block_size), "tokens", between(1, most_positions),
       "length of a sequence"},
      {"model.vocab_size", in(&Options::model, &ModelOptions::vocab_size), "tokens", between(2, most_tokens).or_word("auto"),
       "rows of the embedding; auto: as the data has it"},
      {"model.dropout", in(&Options::model, &ModelOptions::dropout), "", from_below(0, 1),
       "share of elements that dropout zeroes"},
      {"model.tied", in(&Options::model, &ModelOptions::tied), "", any(), "the head is the token embedding", gpt},
      {"model.layer_norm_epsilon", in(&Options::model, &ModelOptions::layer_norm_epsilon), "", above(0),
       "added to the variance in layer norms", gpt},
      {"model.init_from", in(&Options::model, &ModelOptions::init_from), "",
       any().as("a Hugging Face directory or a safetensors file"), "weights to start from, by GPT-2's names; empty: random"},
  };
}

std::vector<Row> data_rows() {
  return {
      {"data.source", in(&Options::data, &DataOptions::source), "",
       not_empty().as("synthetic, or a path, a list of paths (a,b) or a pattern (*.txt)"),
       "tokens to train on; a file is told by its content: a tokens file or text"},
      {"data.val_source", in(&Options::data, &DataOptions::val_source), "", any().as("as data.source"),
       "tokens to validate on; empty: the last part of data.source"},
      {"data.tokenizer", in(&Options::data, &DataOptions::tokenizer), "", one_of(names<data::Tokenizer>()),
       "how text files become tokens"},
      {"data.vocabulary", in(&Options::data, &DataOptions::vocabulary), "", any().as("the path of a tokens file"),
       "vocabulary to read text with; empty: the text's own"},
      {"data.val_fraction", in(&Options::data, &DataOptions::val_fraction), "", from_below(0, 1),
       "share of data.source kept for validation"},
      {"data.shuffle", in(&Options::data, &DataOptions::shuffle), "", any(),
       "a new order each epoch; false: the samples in their order"},
      {"data.drop_last", in(&Options::data, &DataOptions::drop_last), "", any(),
       "drop the rest of an epoch that fills no global batch; false: fill it up from the epoch's start, or go on across the "
       "end where nothing is shuffled"},
  };
}

std::vector<Row> batch_and_train_rows() {
  return {
      {"batch.micro", in(&Options::batch, &BatchOptions::micro), "sequences", between(1, most_samples),
       "sequences that go through the model together"},
      {"batch.global", in(&Options::batch, &BatchOptions::global), "sequences", between(1, most_samples).or_word("auto"),
       "sequences per step over all ranks; auto: micro x ranks. The accumulation follows: global / (micro x ranks)"},
      {"train.steps", in(&Options::train, &TrainOptions::steps), "steps", between(1, most_steps),
       "updates to make, those before a resumption included"},
      {"train.dtype", in(&Options::train, &TrainOptions::dtype), "", one_of(names<DType>()),
       "parameters and activations; below fp32 the optimizer keeps fp32 master parameters"},
      {"train.seed", in(&Options::train, &TrainOptions::seed), "", any(),
       "of the initial parameters, the order of samples and dropout"},
      {"train.threads", in(&Options::train, &TrainOptions::threads), "threads per rank", between(1, 4096).or_word("auto"),
       "auto: the cores a rank may use, divided by the ranks that share them"},
      {"train.grad_clip", in(&Options::train, &TrainOptions::grad_clip), "", at_least(0),
       "largest global norm of the gradients; 0: no clipping"},
      {"train.log_every", in(&Options::train, &TrainOptions::log_every), "steps", between(1, most_steps),
       "steps between lines of the log"},
      {"train.eval_every", in(&Options::train, &TrainOptions::eval_every), "steps", between(0, most_steps),
       "steps between evaluations on the validation split; 0: at the end only"},
      {"train.eval_batches", in(&Options::train, &TrainOptions::eval_batches), "global batches", between(0, most_steps),
       "length of an evaluation; 0: the whole split"},
      {"train.on_nan", in(&Options::train, &TrainOptions::on_nan), "", one_of(names<OnNan>()),
       "what a loss or gradient that is not finite does: end the run, or leave out the update"},
      {"train.stop_after", in(&Options::train, &TrainOptions::stop_after), "seconds", at_least(0),
       "wall time after which a run writes a checkpoint and ends with exit code 75; 0: no limit"},
  };
}

std::vector<Row> loss_scale_rows() {
  const UsedBy fp16 = {"train.dtype", {name_of(DType::f16)}}, dynamic = {"train.loss_scale", {"dynamic"}};
  const auto scale = [](auto member) { return in(&Options::loss_scale, member); };
  return {
      {"train.loss_scale", scale(&LossScaleOptions::scale), "", above(0).or_word("dynamic"),
       "what the loss is multiplied by so that fp16 gradients do not vanish; dynamic: as large as overflows allow", fp16},
      {"train.loss_scale_power", scale(&LossScaleOptions::initial_power), "", between(0, 127),
       "a dynamic scale starts at 2 to this power", dynamic},
      {"train.loss_scale_window", scale(&LossScaleOptions::window), "steps", between(1, most_steps),
       "steps without an overflow after which it doubles", dynamic},
      {"train.loss_scale_hysteresis", scale(&LossScaleOptions::hysteresis), "overflows", between(1, most_steps),
       "overflows that it takes to halve", dynamic},
      {"train.loss_scale_consecutive_hysteresis", scale(&LossScaleOptions::consecutive_hysteresis), "", any(),
       "every step without an overflow restores the hysteresis; false: only a step that doubles the scale", dynamic},
      {"train.loss_scale_minimum", scale(&LossScaleOptions::minimum), "", above(0), "an overflow at this scale ends the run",
       dynamic},
  };
}

std::vector<Row> optimizer_rows() {
  const UsedBy adamw = {"optimizer.kind", {name_of(optim::OptimizerKind::adamw)}};
  const UsedBy sgd = {"optimizer.kind", {name_of(optim::OptimizerKind::sgd)}};
  const UsedBy adascale = {"optimizer.adascale", {"true"}};
  return {
      {"optimizer.kind", in(&Options::optimizer, &OptimizerOptions::kind), "", one_of(names<optim::OptimizerKind>()),
       "update rule"},
      {"optimizer.lr", in(&Options::optimizer, &OptimizerOptions::lr), "", at_least(0),
       "learning rate, before the schedule"},
      {"optimizer.beta1", in(&Options::optimizer, &OptimizerOptions::beta1), "", from_below(0, 1),
       "decay of the first moment", adamw},
      {"optimizer.beta2", in(&Options::optimizer, &OptimizerOptions::beta2), "", from_below(0, 1),
       "decay of the second moment", adamw},
      {"optimizer.epsilon", in(&Options::optimizer, &OptimizerOptions::epsilon), "", above(0),
       "added to the root of the second moment", adamw},
      {"optimizer.weight_decay", in(&Options::optimizer, &OptimizerOptions::weight_decay), "", at_least(0),
       "of matrices and embeddings; decoupled with adamw"},
      {"optimizer.decay_1d", in(&Options::optimizer, &OptimizerOptions::decay_1d), "", any(), "decay biases and norms too"},
      {"optimizer.momentum", in(&Options::optimizer, &OptimizerOptions::momentum), "", from_below(0, 1),
       "decay of the momentum; 0: none", sgd},
      {"optimizer.nesterov", in(&Options::optimizer, &OptimizerOptions::nesterov), "", any(), "Nesterov's momentum", sgd},
      {"optimizer.adascale", in(&Options::adascale, &AdaScaleOptions::on), "", any(),
       "AdaScale (Johnson et al. 2020): a large batch takes longer steps where gradients are noisy, each of which counts as "
       "several of train.steps and of the schedule"},
      {"optimizer.adascale_scale", in(&Options::adascale, &AdaScaleOptions::scale), "small batches",
       at_least(1).or_word("auto"),
       "batch.global / the batch that lr and train.steps are made for; auto: batch.global / batch.micro", adascale},
      {"optimizer.adascale_smoothing", in(&Options::adascale, &AdaScaleOptions::smoothing), "",
       from_below(0, 1).or_word("auto", -1),
       "what averages of gradients' squares keep from step to step, less for short runs; auto: 1 - M / 1000 or 0, "
       "M = batch.global / batch.micro",
       adascale},
      {"optimizer.adascale_debias", in(&Options::adascale, &AdaScaleOptions::debias), "", any(),
       "exponential averages whose weights add up to 1; false: plain means of the first steps, as the paper has them",
       adascale},
      {"optimizer.adascale_power", in(&Options::adascale, &AdaScaleOptions::power), "", between(0, 1).or_word("auto", -1),
       "the rate is multiplied by gain to this power; auto: 1 with sgd, 0.5 with adamw", adascale},
  };
}

std::vector<Row> schedule_rows() {
  const auto that = [](bool optim::ScheduleTraits::*trait) {
    return users("schedule.kind", optim::schedule_kinds, [=](const auto& row) { return row.has.*trait; });
  };
  using Traits = optim::ScheduleTraits;
  const UsedBy warmup = that(&Traits::warmup), curve = that(&Traits::curve), floor = that(&Traits::min_lr);
  const UsedBy decay = that(&Traits::decays), top = that(&Traits::max_lr), ratios = that(&Traits::ratios);
  const UsedBy cycle = that(&Traits::cycle);
  const UsedBy momentum = {"schedule.cycle_momentum", {"true"}};
  const auto schedule = [](auto member) { return in(&Options::schedule, member); };
  return {
      {"schedule.kind", schedule(&ScheduleOptions::kind), "", one_of(names<optim::ScheduleKind>()),
       "learning rate over the steps; linear: linear warm-up, then constant; cosine: the same, then a cosine down to "
       "min_lr; "
       "those with capitals are DeepSpeed's"},
      {"schedule.warmup_steps", schedule(&ScheduleOptions::warmup_steps), "steps", between(0, most_steps),
       "steps until the full rate", warmup},
      {"schedule.warmup_kind", schedule(&ScheduleOptions::warmup_kind), "", one_of(names<optim::WarmupKind>()),
       "shape of DeepSpeed's warm-up", curve},
      {"schedule.min_lr", schedule(&ScheduleOptions::min_lr), "", at_least(0),
       "rate at the end of cosine; at the start of WarmupLR and WarmupDecayLR", floor},
      {"schedule.total_steps", schedule(&ScheduleOptions::total_steps), "steps", between(1, most_steps).or_word("auto"),
       "steps that the decay takes, the warm-up included; auto: train.steps", decay},
      {"schedule.warmup_max_lr", schedule(&ScheduleOptions::warmup_max_lr), "", at_least(0).or_word("auto", -1),
       "rate after the warm-up; auto: DeepSpeed's default (optimizer.lr; 0.001 with WarmupDecayLR)", top},
      {"schedule.warmup_min_ratio", schedule(&ScheduleOptions::warmup_min_ratio), "of lr", between(0, 1),
       "rate at the start of the warm-up", ratios},
      {"schedule.cos_min_ratio", schedule(&ScheduleOptions::cos_min_ratio), "of lr", between(0, 1), "rate at the end",
       ratios},
      {"schedule.cycle_min_lr", schedule(&ScheduleOptions::cycle_min_lr), "", at_least(0), "lowest rate of the cycle",
       cycle},
      {"schedule.cycle_max_lr", schedule(&ScheduleOptions::cycle_max_lr), "", at_least(0), "highest rate of the cycle",
       cycle},
      {"schedule.decay_lr_rate", schedule(&ScheduleOptions::decay_lr_rate), "", at_least(0),
       "decay of the rate after the cycle", cycle},
      {"schedule.cycle_first_step_size", schedule(&ScheduleOptions::cycle_first_step_size), "steps", between(1, most_steps),
       "rising part of the cycle", cycle},
      {"schedule.cycle_second_step_size", schedule(&ScheduleOptions::cycle_second_step_size), "steps",
       between(1, most_steps).or_word("auto"), "falling part of the cycle; auto: as the rising one", cycle},
      {"schedule.cycle_first_stair_count", schedule(&ScheduleOptions::cycle_first_stair_count), "stairs",
       between(0, most_steps), "of the rising part; 0: smooth", cycle},
      {"schedule.cycle_second_stair_count", schedule(&ScheduleOptions::cycle_second_stair_count), "stairs",
       between(0, most_steps), "of the falling part; 0: as the rising one", cycle},
      {"schedule.decay_step_size", schedule(&ScheduleOptions::decay_step_size), "steps", between(0, most_steps),
       "steps of one decay after the cycle; 0: no decay", cycle},
      {"schedule.cycle_momentum", schedule(&ScheduleOptions::cycle_momentum), "", any(),
       "beta1 runs against the rate, and beta2 becomes 0.99", cycle},
      {"schedule.cycle_min_mom", schedule(&ScheduleOptions::cycle_min_mom), "", from_below(0, 1),
       "lowest beta1 of the cycle", momentum},
      {"schedule.cycle_max_mom", schedule(&ScheduleOptions::cycle_max_mom), "", from_below(0, 1),
       "highest beta1 of the cycle", momentum},
      {"schedule.decay_mom_rate", schedule(&ScheduleOptions::decay_mom_rate), "", at_least(0),
       "growth of beta1 after the cycle", momentum},
  };
}

}  // namespace

std::vector<Row> training_rows() {
  std::vector<Row> rows = model_rows();
  for (const auto& more : {data_rows(), batch_and_train_rows(), loss_scale_rows(), optimizer_rows(), schedule_rows()}) {
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

}  // namespace shoal::config
