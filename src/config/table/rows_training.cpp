// SPDX-License-Identifier: Apache-2.0
// Options that change the results of a training: model, data, batch, train, optimizer, schedule.
#include "config/table/limits.hpp"
#include "config/table/rows.hpp"

namespace shoal::config {

using data::DataOptions;
using model::ModelOptions;
using optim::AdaScaleOptions;
using optim::LossScaleOptions;
using optim::OptimizerOptions;
using optim::ScheduleOptions;

namespace {

constexpr double most_tokens = 2147483647;  // token ids are signed 32-bit integers
// Far beyond any model, and small enough that no count of elements overflows.
constexpr double most_layers = 1024, most_width = 1048576, most_positions = 16777216;

std::vector<Row> model_rows() {
  const UsedBy gpt = {"model.kind", {name_of(model::ModelKind::gpt)}};
  return {
      {"model.kind", in(&Options::model, &ModelOptions::kind), "", one_of(names<model::ModelKind>()),
       about("gpt: the architecture of GPT-2; mlp: a perceptron that predicts the token after block_size tokens")},
      {"model.n_layer", in(&Options::model, &ModelOptions::n_layer), "blocks", between(1, most_layers),
       about("transformer blocks (gpt), or hidden layers (mlp)")},
      {"model.n_head", in(&Options::model, &ModelOptions::n_head), "heads", between(1, most_width),
       about("gpt: attention heads of a block; must divide n_embd"), gpt},
      {"model.n_embd", in(&Options::model, &ModelOptions::n_embd), "elements", between(1, most_width),
       about("gpt: width of the residual stream; mlp: width of a token's embedding")},
      {"model.n_inner", in(&Options::model, &ModelOptions::n_inner), "elements", between(1, most_width).or_word("auto"),
       about("width of a block's MLP (gpt), or of the hidden layers (mlp); auto: 4 n_embd")},
      {"model.block_size", in(&Options::model, &ModelOptions::block_size), "tokens", between(1, most_positions),
       about("length of a sequence")},
      {"model.vocab_size", in(&Options::model, &ModelOptions::vocab_size), "tokens", between(2, most_tokens).or_word("auto"),
       about("rows of the token embedding; auto: the size of the data's vocabulary",
             "Round it up to a multiple of 64 for faster matrix products.")},
      {"model.dropout", in(&Options::model, &ModelOptions::dropout), "", from_below(0, 1),
       about("gpt: probability with which dropout sets an element to zero in training",
             "Raise it if the validation loss rises while the training loss falls.")},
      {"model.tied", in(&Options::model, &ModelOptions::tied), "", any(),
       about("gpt: the head uses the weights of the token embedding"), gpt},
      {"model.tied_gradient", in(&Options::model, &ModelOptions::tied_gradient), "", one_of(names<model::TiedGradient>()),
       about("gpt, tied: joined: head and embedding add their gradients in each micro-batch; apart: once a step, after the "
             "sums over micro-batches and ranks, since the head has a copy of the weights",
             "Pipelines need apart. It decides the trajectory: set it without a pipeline too, to continue a run of one."),
       gpt},
      {"model.direct", in(&Options::model, &ModelOptions::direct), "", any(),
       about(
           "gpt: a direct connection from the embeddings to the output (Bengio et al. 2003): the logits are the sum of the "
           "head's and of a product of the first block's input with a weight of its own"),
       gpt},
      {"model.layer_norm_epsilon", in(&Options::model, &ModelOptions::layer_norm_epsilon), "", above(0),
       about("gpt: added to the variance in layer norms"), gpt},
      {"model.init_from", in(&Options::model, &ModelOptions::init_from), "",
       any().as("a Hugging Face directory or a safetensors file"),
       about("initial weights, under the names of Hugging Face's GPT-2; empty: random weights",
             "Set it to fine-tune a model.")},
  };
}

std::vector<Row> data_rows() {
  return {
      {"data.source", in(&Options::data, &DataOptions::source), "",
       not_empty().as("synthetic, or a path, a list of paths (a,b) or a pattern (*.txt)"),
       about("data to train on; the content of a file decides whether it is read as a tokens file or as text")},
      {"data.val_source", in(&Options::data, &DataOptions::val_source), "", any().as("as data.source"),
       about("data to validate on; empty: the last part of data.source (val_fraction)")},
      {"data.tokenizer", in(&Options::data, &DataOptions::tokenizer), "", one_of(names<data::Tokenizer>()),
       about("text files: a token is one byte, or one Unicode character; raw: one byte of files that are not UTF-8 text",
             "For other tokens make a tokens file with analysis/make_tokens.py.")},
      {"data.vocabulary", in(&Options::data, &DataOptions::vocabulary), "", any().as("the path of a tokens file"),
       about("text files: use the vocabulary of this tokens file; empty: the text's own vocabulary",
             "Set it to train on another text with the same token numbers.")},
      {"data.val_fraction", in(&Options::data, &DataOptions::val_fraction), "", from_below(0, 1),
       about("part of data.source, at its end, that is used for validation instead of training")},
      {"data.shuffle", in(&Options::data, &DataOptions::shuffle), "", any(),
       about("visit the samples in a new random order in every epoch; false: in the order of the data")},
      {"data.drop_last", in(&Options::data, &DataOptions::drop_last), "", any(),
       about("leave out samples at the end of an epoch that do not fill a global batch; false: fill that batch with samples "
             "from the start of the epoch's order")},
  };
}

std::vector<Row> batch_and_train_rows() {
  return {
      {"batch.micro", in(&Options::batch, &BatchOptions::micro), "sequences", between(1, most_samples),
       about("sequences of a micro-batch, which go through the model together on one rank",
             "Lower it to save memory for activations; raise it for larger matrix products.")},
      {"batch.global", in(&Options::batch, &BatchOptions::global), "sequences", between(1, most_samples).or_word("auto"),
       about("sequences of a step, over all ranks; auto: micro x ranks. Each rank adds up the gradients of global / (micro "
             "x ranks) micro-batches")},
      {"train.steps", in(&Options::train, &TrainOptions::steps), "steps", between(1, most_steps),
       about("updates to make, including those before a checkpoint that the run resumes from")},
      {"train.dtype", in(&Options::train, &TrainOptions::dtype), "", one_of(names<DType>()),
       about("precision of parameters and activations; with bf16 and fp16 the optimizer keeps fp32 master parameters",
             "Set it to bf16 to save memory, and time on processors with bf16 instructions.")},
      {"train.seed", in(&Options::train, &TrainOptions::seed), "", any(),
       about("seed of the initial parameters, the order of samples, dropout and the synthetic text")},
      {"train.device", in(&Options::train, &TrainOptions::device), "", one_of(names<device::DeviceKind>()),
       about("where the run must compute: it is refused by a program that was built for another device; auto: where this "
             "program does",
             "Set it in job scripts, so that a wrong program does not go unnoticed.")},
      {"train.threads", in(&Options::train, &TrainOptions::threads), "threads", between(1, 4096).or_word("auto"),
       about("threads of a rank; auto: the cores that the rank may use divided by the ranks that share them, at most "
             "OMP_NUM_THREADS")},
      {"train.tf32", in(&Options::train, &TrainOptions::tf32), "", any(),
       about("GPUs: multiply fp32 matrices in TF32, whose numbers have 10 bits of mantissa instead of 23; refused by a "
             "program that computes on processors",
             "Set it for speed where bf16 is too coarse."),
       UsedBy{"train.dtype", {name_of(DType::f32)}}},
      {"train.fused_gelu", in(&Options::train, &TrainOptions::fused_gelu), "", any(),
       about("gpt, GPUs: GELU and its derivative are computed within matrix products, by the library's formula, whose bits "
             "differ from shoal's own; refused by a program that computes on processors",
             "Set it where the GELU's memory traffic costs more than a slower product; measure both."),
       UsedBy{"model.kind", {name_of(model::ModelKind::gpt)}}},
      {"train.grad_clip", in(&Options::train, &TrainOptions::grad_clip), "", at_least(0),
       about("scale gradients down if their global norm is larger than this; 0: never")},
      {"train.log_every", in(&Options::train, &TrainOptions::log_every), "steps", between(1, most_steps),
       about("steps between lines of the log")},
      {"train.eval_every", in(&Options::train, &TrainOptions::eval_every), "steps", between(0, most_steps),
       about("steps between evaluations on the validation data; 0: only one at the end")},
      {"train.eval_batches", in(&Options::train, &TrainOptions::eval_batches), "global batches", between(0, most_steps),
       about("global batches of an evaluation; 0: all validation data")},
      {"train.on_nan", in(&Options::train, &TrainOptions::on_nan), "", one_of(names<OnNan>()),
       about("if a loss or a gradient is not finite: stop ends the run, skip leaves out the update")},
      {"train.stop_after", in(&Options::train, &TrainOptions::stop_after), "seconds",
       at_least(0).or_wall_time().or_word("auto", TrainOptions::as_the_job),
       about(
           "write a checkpoint and end with exit code 75 after this time; 0: no limit; auto: what SLURM or PBS says is left "
           "of the job, less the longest step, the longest save and up to 30 s for the end. Given on the command line, auto "
           "leaves an earlier limit of the deck in force",
           "Set it below the time limit of the job, or to auto.")},
  };
}

std::vector<Row> loss_scale_rows() {
  const UsedBy fp16 = {"train.dtype", {name_of(DType::f16)}}, dynamic = {"train.loss_scale", {"dynamic"}};
  const auto scale = [](auto member) { return in(&Options::loss_scale, member); };
  return {
      {"train.loss_scale", scale(&LossScaleOptions::scale), "", above(0).or_word("dynamic"),
       about("fp16: factor on the loss that keeps small gradients from becoming zero; dynamic: as large as overflows allow"),
       fp16},
      {"train.loss_scale_power", scale(&LossScaleOptions::initial_power), "", between(0, 127),
       about("fp16: a dynamic loss scale starts at 2 to this power"), dynamic},
      {"train.loss_scale_window", scale(&LossScaleOptions::window), "steps", between(1, most_steps),
       about("fp16: steps without an overflow after which the scale is doubled"), dynamic},
      {"train.loss_scale_hysteresis", scale(&LossScaleOptions::hysteresis), "overflows", between(1, most_steps),
       about("fp16: overflows after which the scale is halved", "Raise it if single bad batches keep lowering the scale."),
       dynamic},
      {"train.loss_scale_consecutive_hysteresis", scale(&LossScaleOptions::consecutive_hysteresis), "", any(),
       about("fp16: every step without an overflow restarts the count of overflows; false: only a step that doubles the "
             "scale does"),
       dynamic},
      {"train.loss_scale_minimum", scale(&LossScaleOptions::minimum), "", above(0),
       about("fp16: smallest dynamic scale; an overflow at this scale ends the run"), dynamic},
  };
}

std::vector<Row> optimizer_rows() {
  const UsedBy adamw = {"optimizer.kind", {name_of(optim::OptimizerKind::adamw)}};
  const UsedBy sgd = {"optimizer.kind", {name_of(optim::OptimizerKind::sgd)}};
  const UsedBy adascale = {"optimizer.adascale", {"true"}};
  return {
      {"optimizer.kind", in(&Options::optimizer, &OptimizerOptions::kind), "", one_of(names<optim::OptimizerKind>()),
       about("adamw: Adam with decoupled weight decay; sgd: stochastic gradient descent with momentum")},
      {"optimizer.lr", in(&Options::optimizer, &OptimizerOptions::lr), "", at_least(0),
       about(
           "learning rate, which schedule.kind varies over the steps; not with OneCycle, WarmupDecayLR or a warmup_max_lr, "
           "which set the rate themselves")},
      {"optimizer.beta1", in(&Options::optimizer, &OptimizerOptions::beta1), "", from_below(0, 1),
       about("adamw: decay rate of the first moment"), adamw},
      {"optimizer.beta2", in(&Options::optimizer, &OptimizerOptions::beta2), "", from_below(0, 1),
       about("adamw: decay rate of the second moment"), adamw},
      {"optimizer.epsilon", in(&Options::optimizer, &OptimizerOptions::epsilon), "", above(0),
       about("adamw: added to the root of the second moment"), adamw},
      {"optimizer.weight_decay", in(&Options::optimizer, &OptimizerOptions::weight_decay), "", at_least(0),
       about("weight decay of matrices and embeddings; adamw: decoupled from the gradient")},
      {"optimizer.decay_1d", in(&Options::optimizer, &OptimizerOptions::decay_1d), "", any(),
       about("apply the weight decay to biases and layer norms too")},
      {"optimizer.momentum", in(&Options::optimizer, &OptimizerOptions::momentum), "", from_below(0, 1),
       about("sgd: decay rate of the momentum; 0: no momentum"), sgd},
      {"optimizer.nesterov", in(&Options::optimizer, &OptimizerOptions::nesterov), "", any(),
       about("sgd: Nesterov's form of the momentum"), sgd},
      {"optimizer.adascale", in(&Options::adascale, &AdaScaleOptions::on), "", any(),
       about("AdaScale (Johnson et al. 2020): adapt the learning rate to a batch larger than the one it was tuned for; "
             "train.steps and the schedule then count steps of the small batch",
             "Set it when you enlarge batch.global.")},
      {"optimizer.adascale_scale", in(&Options::adascale, &AdaScaleOptions::scale), "ratio", at_least(1).or_word("auto"),
       about("batch.global divided by the batch that lr and train.steps were tuned for; auto: batch.global / batch.micro",
             "Set it unless that batch was batch.micro."),
       adascale},
      {"optimizer.adascale_smoothing", in(&Options::adascale, &AdaScaleOptions::smoothing), "",
       from_below(0, 1).or_word("auto", -1),
       about("weight of the past in AdaScale's averages; auto: 1 - M / 1000, at least 0, for M = batch.global / batch.micro",
             "Set it to 0.9 for runs of a few hundred steps."),
       adascale},
      {"optimizer.adascale_debias", in(&Options::adascale, &AdaScaleOptions::debias), "", any(),
       about(
           "correct AdaScale's averages for their start at zero; false: plain averages in the first steps, as in the paper"),
       adascale},
      {"optimizer.adascale_power", in(&Options::adascale, &AdaScaleOptions::power), "", between(0, 1).or_word("auto", -1),
       about("multiply the learning rate by AdaScale's gain to this power; auto: 1 with sgd, 0.5 with adamw",
             "It is for experiments."),
       adascale},
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
       about("learning rate over the steps. linear: linear warm-up, then constant; cosine: linear warm-up, then a cosine "
             "down to min_lr; names with capitals: DeepSpeed's schedulers")},
      {"schedule.warmup_steps", schedule(&ScheduleOptions::warmup_steps), "steps", between(0, most_steps),
       about("steps of the warm-up, after which the rate is full"), warmup},
      {"schedule.warmup_kind", schedule(&ScheduleOptions::warmup_kind), "", one_of(names<optim::WarmupKind>()),
       about("WarmupLR, WarmupDecayLR, WarmupCosineLR: shape of the warm-up"), curve},
      {"schedule.min_lr", schedule(&ScheduleOptions::min_lr), "", at_least(0),
       about("cosine: rate at the end; WarmupLR, WarmupDecayLR: rate at the start"), floor},
      {"schedule.total_steps", schedule(&ScheduleOptions::total_steps), "steps", between(1, most_steps).or_word("auto"),
       about("cosine, WarmupDecayLR, WarmupCosineLR: steps until the decay ends, including the warm-up; auto: train.steps",
             "Set it if the run will be continued beyond train.steps."),
       decay},
      {"schedule.warmup_max_lr", schedule(&ScheduleOptions::warmup_max_lr), "", at_least(0).or_word("auto", -1),
       about("WarmupLR, WarmupDecayLR: rate after the warm-up; auto, as in DeepSpeed: optimizer.lr (WarmupLR), 0.001 "
             "(WarmupDecayLR)"),
       top},
      {"schedule.warmup_min_ratio", schedule(&ScheduleOptions::warmup_min_ratio), "", between(0, 1),
       about("WarmupCosineLR: rate at the start of the warm-up, divided by lr"), ratios},
      {"schedule.cos_min_ratio", schedule(&ScheduleOptions::cos_min_ratio), "", between(0, 1),
       about("WarmupCosineLR: rate at the end, divided by lr"), ratios},
      {"schedule.cycle_min_lr", schedule(&ScheduleOptions::cycle_min_lr), "", at_least(0),
       about("OneCycle: lowest rate of the cycle"), cycle},
      {"schedule.cycle_max_lr", schedule(&ScheduleOptions::cycle_max_lr), "", at_least(0),
       about("OneCycle: highest rate of the cycle"), cycle},
      {"schedule.decay_lr_rate", schedule(&ScheduleOptions::decay_lr_rate), "", at_least(0),
       about("OneCycle: after the cycle the rate is cycle_min_lr / (1 + decay_lr_rate x n), n = steps since then / "
             "decay_step_size"),
       cycle},
      {"schedule.cycle_first_step_size", schedule(&ScheduleOptions::cycle_first_step_size), "steps", between(1, most_steps),
       about("OneCycle: steps of the rising part"), cycle},
      {"schedule.cycle_second_step_size", schedule(&ScheduleOptions::cycle_second_step_size), "steps",
       between(1, most_steps).or_word("auto"), about("OneCycle: steps of the falling part; auto: as the rising part"),
       cycle},
      {"schedule.cycle_first_stair_count", schedule(&ScheduleOptions::cycle_first_stair_count), "stairs",
       between(0, most_steps), about("OneCycle: stairs of the rising part; 0: smooth"), cycle},
      {"schedule.cycle_second_stair_count", schedule(&ScheduleOptions::cycle_second_stair_count), "stairs",
       between(0, most_steps), about("OneCycle: stairs of the falling part; 0: as the rising part"), cycle},
      {"schedule.decay_step_size", schedule(&ScheduleOptions::decay_step_size), "steps", between(0, most_steps),
       about("OneCycle: steps of one decay after the cycle; 0: no decay"), cycle},
      {"schedule.cycle_momentum", schedule(&ScheduleOptions::cycle_momentum), "", any(),
       about("OneCycle with adamw: beta1 rises while the rate falls and falls while it rises, and beta2 is 0.99",
             "Set it to false to keep your betas."),
       cycle},
      {"schedule.cycle_min_mom", schedule(&ScheduleOptions::cycle_min_mom), "", from_below(0, 1),
       about("OneCycle with adamw: lowest beta1 of the cycle"), momentum},
      {"schedule.cycle_max_mom", schedule(&ScheduleOptions::cycle_max_mom), "", from_below(0, 1),
       about("OneCycle with adamw: highest beta1 of the cycle"), momentum},
      {"schedule.decay_mom_rate", schedule(&ScheduleOptions::decay_mom_rate), "", at_least(0),
       about(
           "OneCycle with adamw: after the cycle beta1 is cycle_max_mom x (1 + decay_mom_rate x n), n = steps since then / "
           "decay_step_size; it must stay below 1"),
       momentum},
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
