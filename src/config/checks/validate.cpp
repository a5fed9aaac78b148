// SPDX-License-Identifier: Apache-2.0
// Checks that a single row of the table cannot make: options that contradict each other, or do not fit the number of ranks.
#include "config/checks/validate.hpp"

#include <algorithm>
#include <cmath>

#include "shoal/base/error.hpp"
#include "shoal/config/located.hpp"
#include "shoal/config/table.hpp"
#include "shoal/kernels/products.hpp"

namespace shoal::config {

namespace {

/// "nearest: 96, 120": the next multiples below and above; the lower one only if it is not zero.
std::string nearest_multiples(std::size_t value, std::size_t factor) {
  const std::size_t below = value / factor * factor;
  return text("nearest: ", below == 0 ? "" : text(below, ", "), below + factor);
}

std::vector<std::string> batch_problems(const BatchOptions& batch, std::size_t ranks) {
  if (batch.global % (batch.micro * ranks) == 0) return {};
  return {text("batch.global = ", batch.global, " is not a multiple of batch.micro (", batch.micro,
               ") x data-parallel ranks (", ranks, ") = ", batch.micro * ranks, "; ",
               nearest_multiples(batch.global, batch.micro * ranks))};
}

/// The trace numbers the micro-batches of a step in 16 bits.
std::vector<std::string> trace_problems(const Options& o) {
  constexpr std::size_t most = std::size_t{1} << 15U;
  const std::size_t micro_batches = o.batch.global / o.batch.micro;
  if (o.trace.level == trace::Level::off || micro_batches <= most) return {};
  return {text("batch.global = ", o.batch.global, " makes ", micro_batches,
               " micro-batches of batch.micro = ", o.batch.micro, " in a step, but the trace can tell at most ", most,
               " apart; allowed: a larger batch.micro, or trace.level = off")};
}

std::vector<std::string> data_problems(const Options& o) {
  std::vector<std::string> problems;
  const bool validates = o.data.val_fraction > 0 || !o.data.val_source.empty();
  if (o.train.eval_every > 0 && !validates) {
    problems.push_back(text("train.eval_every = ", o.train.eval_every,
                            ", but there is nothing to validate on: data.val_fraction = 0 and "
                            "data.val_source is empty; set one of the two"));
  }
  const data::DataOptions unset;
  if (!o.data.val_source.empty() && o.data.val_fraction != unset.val_fraction && o.data.val_fraction > 0) {
    problems.push_back(text("data.val_fraction = ", o.data.val_fraction, " has no effect with data.val_source = ",
                            shown(o.data.val_source), ": all of data.source is used for training; allowed: 0"));
  }
  if (o.data.source == "synthetic") {
    const auto unused = [&](const char* name, const std::string& value, const std::string& otherwise) {
      if (value != otherwise)
        problems.push_back(
            text(name, " = ", value, " has no effect with data.source = synthetic; it needs files as data.source"));
    };
    unused("data.val_source", o.data.val_source, unset.val_source);
    unused("data.tokenizer", name_of(o.data.tokenizer), name_of(unset.tokenizer));
    unused("data.vocabulary", o.data.vocabulary, unset.vocabulary);
  }
  return problems;
}

std::vector<std::string> checkpoint_problems(const Options& options) {
  const CheckpointOptions& o = options.checkpoint;
  std::vector<std::string> problems;
  if (o.keep_best && options.train.eval_every == 0) {
    problems.emplace_back(
        "checkpoint.keep_best = true needs validation losses during the run, but train.eval_every = 0; set it, and "
        "data.val_fraction or data.val_source");
  }
  if (o.io != io::IoMode::collective) return problems;
  if (o.async) {
    problems.emplace_back(
        "checkpoint.io = collective cannot be combined with checkpoint.async = true: in the background each rank writes by "
        "itself; allowed: auto, independent");
  }
  const char* const option = o.dir.empty() ? "output.dir" : "checkpoint.dir";
  const std::string& directory = o.dir.empty() ? options.output.dir : o.dir;
  if (directory.find(':') != std::string::npos) {
    problems.push_back(
        text("checkpoint.io = collective cannot write to a path with a colon, as that in ", option,
             ": MPI-IO takes what stands before it for the name of a file system; allowed: auto, independent, "
             "or a path without colons"));
  }
  return problems;
}

std::vector<std::string> comm_problems(const comm::CommOptions& o, int ranks) {
  std::vector<std::string> problems;
  if (o.collectives == comm::Collectives::native && o.reduce_dtype != DType::f32) {
    problems.push_back(
        text("comm.reduce_dtype = ", name_of(o.reduce_dtype),
             " cannot be combined with comm.collectives = native: MPI cannot sum 16-bit numbers; allowed: fp32"));
  }
  const std::string per_node = comm::ranks_per_node_problem(o, ranks);
  if (!per_node.empty()) problems.push_back(per_node);
  return problems;
}

std::vector<std::string> optimizer_problems(const optim::OptimizerOptions& o) {
  if (o.kind == optim::OptimizerKind::sgd && o.nesterov && o.momentum == 0) {
    return {"optimizer.nesterov = true needs a momentum, but optimizer.momentum = 0; allowed: above 0"};
  }
  return {};
}

std::vector<std::string> gelu_problems(const Options& o) {
  const std::size_t width = o.model.inner();
  if (!o.train.fused_gelu || o.model.kind != model::ModelKind::gpt || width % kernels::gelu_stride == 0) return {};
  return {text("train.fused_gelu = true needs an MLP whose width is a multiple of ", kernels::gelu_stride,
               ", but model.n_inner = ", width, "; ", nearest_multiples(width, kernels::gelu_stride))};
}

/// AdaScale measures how the gradients of the micro-batches of a step differ.
std::vector<std::string> adascale_problems(const Options& o) {
  if (!o.adascale.on || o.batch.global >= 2 * o.batch.micro) return {};
  return {
      text("optimizer.adascale = true needs at least 2 micro-batches per step, to measure how their gradients differ, but "
           "batch.global = ",
           o.batch.global, " is less than 2 x batch.micro (", o.batch.micro, "); allowed: batch.global of at least ",
           2 * o.batch.micro, ", or a smaller batch.micro")};
}

/// "a", "a or b", "a, b or c"; last: what stands before the last word.
std::string listed(const std::vector<std::string>& words, const char* last) {
  if (words.size() == 1) return words.front();
  return joined({words.begin(), words.end() - 1}) + last + words.back();
}

std::string why_unused(const Row& row, const Options& options);

/// Why an option has no effect: none of `users` is set so that it applies.
std::string why_none_uses(const std::vector<UsedBy>& users, const Options& options) {
  std::vector<std::string> chosen, needed;
  for (const UsedBy& by : users) {
    const Row& decides = *find(by.option);
    const std::string value = value_text(decides, options);
    if (std::find(by.values.begin(), by.values.end(), value) != by.values.end()) return why_unused(decides, options);
    chosen.push_back(by.option + " = " + value);
    needed.push_back(by.option + " = " + listed(by.values, " or "));
  }
  return text(" has no effect with ", listed(chosen, " and "), "; it needs ", listed(needed, ", or "));
}

/// Returns why the option has no effect, " has no effect with OPTION = VALUE; it needs OPTION = ...", or an empty text if it
/// has one. The other option may itself depend on a third one.
std::string why_unused(const Row& row, const Options& options) {
  if (is_used(row, options)) return {};
  if (!row.used_by_any.empty()) return why_none_uses(row.used_by_any, options);
  const Row& decides = *find(row.used_by.option);
  std::string outer = why_unused(decides, options);
  if (!outer.empty()) return outer;
  const std::string hint = no_decay_hint(row.name, options.schedule);
  return text(" has no effect with ", decides.name, " = ", value_text(decides, options),
              hint.empty() ? text("; it needs ", decides.name, " = ", listed(row.used_by.values, " or ")) : hint);
}

/// Finds options that were set but have no effect. What a checkpoint's deck says beside the command line was not set here.
std::vector<std::string> unused_options(const Invocation& invocation) {
  const Options& options = invocation.options;
  std::vector<std::string> problems;
  const auto was_set = [&](const Row& row) {
    return value_text(row, options) != default_text(row) && !invocation.places.of(row.name).empty();
  };
  const auto report = [&](const Row& row, const std::string& why) {
    problems.push_back(text(row.name, " = ", shown(value_text(row, options)), why));
  };
  for (const Row& row : table()) {
    if (!was_set(row)) continue;
    const std::string why = why_unused(row, options);
    if (!why.empty()) report(row, why);
  }
  for (const IdleOption& idle : idle_with_schedule(options)) {
    const Row& row = *find(idle.option);
    if (was_set(row)) report(row, text(" has no effect with ", idle.with, idle.instead));
  }
  return problems;
}

/// A dynamic loss scale must not start below its minimum.
std::vector<std::string> loss_scale_problems(const Options& options) {
  const optim::LossScaleOptions& scale = options.loss_scale;
  const double start = std::ldexp(1.0, static_cast<int>(scale.initial_power));
  if (options.train.dtype != DType::f16 || scale.scale != 0 || start >= scale.minimum) return {};
  return {text("train.loss_scale_minimum = ", scale.minimum,
               " is above the initial scale, 2^train.loss_scale_power = ", start, "; allowed: at most ", start)};
}

std::vector<std::string> absent_features(const Invocation& invocation) {
  std::vector<std::string> problems;
  if (invocation.dry_run || invocation.print_config) return problems;
  for (const std::string& name : invocation.not_built) {
    const Row* const row = find(name);
    if (row == nullptr) continue;  // a key of DeepSpeed without an option, reported below
    problems.push_back(text(name, " = ", shown(value_text(*row, invocation.options)), ": not built yet: ", name,
                            "; allowed: ", default_text(*row), ", the default"));
  }
  for (const DeepSpeedAbsent& absent : invocation.deepspeed_absent) problems.push_back(absent.sentence);
  return problems;
}

}  // namespace

void validate(Invocation& invocation, int ranks) {
  Options& o = invocation.options;
  const auto count = static_cast<std::size_t>(data_ranks(o, ranks));
  const std::vector<std::string> batch_of_deepspeed = follow_deepspeed(invocation, data_ranks(o, ranks));
  if (o.batch.global == 0) o.batch.global = o.batch.micro * count;
  const bool total_follows = o.schedule.total_steps == 0;
  if (total_follows && row_of(o.schedule.kind).has.decays) o.schedule.total_steps = o.train.steps;

  std::vector<std::string> problems = unused_options(invocation);
  const auto add = [&](const std::vector<std::string>& more) { problems.insert(problems.end(), more.begin(), more.end()); };
  add(model::problems(o.model));
  add(data_problems(o));
  add(checkpoint_problems(o));
  add(zero_problems(o, ranks));
  add(offload_problems(o));
  add(comm_problems(o.comm, ranks));
  add(sync_problems(o, ranks));
  add(pipeline_problems(o, ranks));
  add(tied_problems(o));
  add(batch_of_deepspeed.empty() ? batch_problems(o.batch, count) : batch_of_deepspeed);
  add(trace_problems(o));
  add(gelu_problems(o));
  add(optimizer_problems(o.optimizer));
  add(adascale_problems(o));
  add(loss_scale_problems(o));
  add(schedule_problems(o, total_follows ? "train.steps" : "schedule.total_steps"));
  add(fault_problems(o, ranks));
  add(absent_features(invocation));

  std::string message;
  for (const std::string& problem : problems) message += (message.empty() ? "" : "\n") + located(problem, invocation.places);
  require_input(problems.empty(), message);
  const std::string warning = short_pipeline(o, ranks);
  if (!warning.empty()) invocation.notes.push_back(located(warning, invocation.places));
}

}  // namespace shoal::config
