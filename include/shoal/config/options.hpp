// SPDX-License-Identifier: Apache-2.0
// All options of a run. The options of a folder are declared in its own header, those of the program itself here. The table
// (config/table.hpp) gives each option its name, type, unit, range and help.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shoal/base/names.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/base/types.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/config/places.hpp"
#include "shoal/config/value.hpp"
#include "shoal/data/tokens.hpp"
#include "shoal/device/kind.hpp"
#include "shoal/io/io_mode.hpp"
#include "shoal/io/nvme_options.hpp"
#include "shoal/model/model.hpp"
#include "shoal/optim/adascale.hpp"
#include "shoal/optim/loss_scale.hpp"
#include "shoal/optim/optimizer.hpp"
#include "shoal/optim/schedule.hpp"
#include "shoal/pipeline/options.hpp"
#include "shoal/sync/options.hpp"
#include "shoal/zero/options.hpp"

namespace shoal::config {

struct BatchOptions {
  std::size_t micro = 8;   ///< sequences per micro-batch
  std::size_t global = 0;  ///< sequences per step over all ranks; 0: micro x ranks
};

/// train.on_nan: what happens if a loss or a gradient is not finite.
enum class OnNan : std::uint8_t { stop, skip };
inline constexpr std::array on_nan_names = {Named{OnNan::stop, "stop"}, Named{OnNan::skip, "skip"}};
constexpr const auto& table_of(OnNan) { return on_nan_names; }

struct TrainOptions {
  std::size_t steps = 100;
  DType dtype = DType::f32;
  std::uint64_t seed = 1;
  device::DeviceKind device = device::DeviceKind::automatic;
  int threads = 0;          ///< 0: auto
  bool tf32 = false;        ///< on GPUs, fp32 matrices are multiplied in TF32
  bool fused_gelu = false;  ///< on GPUs, within matrix products
  double grad_clip = 1.0;   ///< largest global norm; 0: no clipping
  std::size_t log_every = 10;
  std::size_t eval_every = 0;    ///< steps between evaluations on the validation data; 0: only one at the end
  std::size_t eval_batches = 0;  ///< global batches per evaluation; 0: all validation data
  OnNan on_nan = OnNan::stop;
  /// Value of stop_after: what the batch system says is left, less what the last step and its checkpoint need.
  static constexpr double as_the_job = -1;
  double stop_after = 0;  ///< seconds; 0: no limit
};

struct CheckpointOptions {
  std::string dir;              ///< empty: output.dir/checkpoints
  std::size_t every = 0;        ///< steps; 0: off
  bool last = true;             ///< also after the last step
  std::size_t keep = 3;         ///< 0: all
  bool keep_best = false;       ///< that of the best validation loss, in addition to those
  std::string resume = "none";  ///< none, latest, or a file
  io::IoMode io = io::IoMode::automatic;
  bool async = false;  ///< write from a copy while training continues
};

struct TraceOptions {
  std::string file;  ///< empty: output.dir/trace.h5
  trace::Level level = trace::Level::comm;
  std::size_t interval = 20;  ///< steps between writes to the file
};

struct OutputOptions {
  std::string dir = "out";
  std::string export_dir;  ///< output.export: Hugging Face weights after the last step; empty: none
  bool overwrite = false;
};

/// Faults to cause on purpose (config/faults.hpp).
struct FaultOptions {
  std::string kind = "none";  ///< or a list of KIND and KIND@STEP:RANK
  std::size_t step = 1;       ///< of the kinds without a place of their own
  std::size_t rank = 0;
};

struct Options {
  model::ModelOptions model;
  data::DataOptions data;
  BatchOptions batch;
  TrainOptions train;
  optim::OptimizerOptions optimizer;
  optim::AdaScaleOptions adascale;  ///< optimizer.adascale*
  optim::ScheduleOptions schedule;
  zero::ZeroOptions zero;
  zero::OffloadOptions offload;
  io::NvmeOptions nvme;
  comm::CommOptions comm;
  sync::SyncOptions sync;
  pipeline::PipelineOptions pipeline;
  CheckpointOptions checkpoint;
  TraceOptions trace;
  OutputOptions output;
  FaultOptions fault;
  model::ActivationOptions activation;
  optim::LossScaleOptions loss_scale;      ///< train.loss_scale*: used with dtype fp16
  double memory_limit_gib = 0;             ///< memory.limit: per rank; 0: what the node has for its ranks
  std::map<std::string, Value> not_built;  ///< options whose feature is not built yet, if they differ from their defaults
};

/// The arguments and options of a command; its help is made from them. The defaults are those of `shoal train [DECK]
/// [--section.name=value ...] [--dry-run] [--print-config] [--ranks N]`. Another command declares its own:
///     {.name = "generate", .summary = "continue a text", .arguments = {"CHECKPOINT"}, .checks = false,
///      .own = {{"prompt", std::string("\n"), "", any(), "text to continue"},
///              {"tokens", std::uint64_t{100}, "tokens", at_least(1), "how many to add"}}}
struct CommandSpec {
  /// An option of this command only: `--tokens 40`. Invocation::own<std::uint64_t>("tokens") reads it. With a section
  /// (`--study.nodes 1,2`) it may also stand in the command's deck.
  struct Own {
    std::string name;
    Value value;  ///< the default; its alternative in the variant is the type
    std::string unit;
    Allowed allowed;
    std::string help;
  };

  std::string name;
  std::string summary;  ///< one line
  /// The words on the line that are not options, in order: "FILE" is required, "[DIR]" may be absent, "INPUT..." is one or
  /// more (at most one such argument). The one named DECK is read as the deck; the others are returned in
  /// Invocation::arguments.
  std::vector<std::string> arguments = {"[DECK]"};
  bool options = true;  ///< takes --section.name=value and --deepspeed FILE
  bool checks = true;   ///< takes --dry-run, --print-config and --ranks N
  std::vector<Own> own = {};
};

/// The part of a DeepSpeed configuration that can be translated only when the number of ranks and the model are known.
/// validate() translates it.
struct DeepSpeedRest {
  std::size_t accumulation = 0;                  ///< micro-batches per rank and step; 0: not given
  std::optional<std::size_t> prefetch_elements;  ///< parameters to gather ahead
  std::string accumulation_place, prefetch_place;
};

/// A key of a DeepSpeed configuration that needs a feature that is not built yet, and has no option.
struct DeepSpeedAbsent {
  std::string key;
  std::string sentence;  ///< "FILE:LINE: KEY = VALUE: not built yet: KEY; ..."
};

/// A parsed command line.
struct Invocation {
  Options options;
  Places places;                       ///< where each option was set, also the command's own ones; empty at defaults
  std::vector<std::string> arguments;  ///< words that are neither an option nor the deck
  std::string deck;                    ///< path of the deck; empty if there is none
  bool help = false, help_as_markdown = false, dry_run = false, print_config = false;
  double deck_stop_after = 0;          ///< seconds, if the deck sets them and the command line `auto`: both limits count
  int ranks = 0;                       ///< --ranks N: pretend that N ranks were started; 0: not given
  std::vector<std::string> not_built;  ///< options and keys that were set but whose feature is not built yet
  std::vector<std::string> notes;      ///< for the log: how the keys of a DeepSpeed configuration were read, and warnings
  bool deepspeed = false;              ///< a DeepSpeed configuration was given
  DeepSpeedRest deepspeed_rest;
  std::vector<DeepSpeedAbsent> deepspeed_absent;  ///< those of not_built that have no option
  std::map<std::string, Value> own_values;

  /// Value of the command's own option `name`; T is the alternative of its default.
  template <typename T>
  const T& own(const std::string& name) const {
    return std::get<T>(own_values.at(name));
  }
  /// The same for an option whose choices are the names of an enum.
  template <HasNames E>
  E own_named(const std::string& name) const {
    return value_named<E>(own<std::string>(name)).value();
  }
};

/// Parses the words after the name of the command. The command line overrides the DeepSpeed configuration, that overrides
/// the deck, and the deck overrides the defaults; it is an error if a deck and a DeepSpeed configuration give an option
/// different values. All errors are found at once and thrown as one Error (bad_input) with a line for each, those of the
/// deck in the order of its lines, then those of the command line: "FILE:LINE: section.name = value: what is wrong; allowed:
/// ...". With --help nothing else is read.
Invocation parse(const CommandSpec& command, int argc, const char* const* argv);

/// Finds options that contradict each other or do not fit this number of ranks, all at once, and throws them as one Error
/// with a line for each. Sets options that follow from others (batch.global = 0; schedule.total_steps = 0 if the schedule
/// needs it). vocab_size may still be 0, since the data may define it. Options whose feature is not built yet are errors
/// here ("not built yet: NAME"), except with --dry-run or --print-config: then the caller reports Invocation::not_built.
void validate(Invocation& invocation, int ranks);
/// Refuses the first thing that validate() refuses of pipelines, for resolved options that were changed since.
void require_pipeline(const Options& options, int ranks);

/// Returns why zero.stage = 3 cannot be combined with stochastic gradient push if `sync_group_size` ranks split the states
/// and a node has `on_node` ranks (0: not known), or an empty text if it can. Nodes push whole copies of the parameters to
/// each other, so each copy must be split within one node.
std::string sgp_stage3_problem(int sync_group_size, int on_node);

/// The resolved options as a deck: every option that is built or was set, in the order of the table, with the default in a
/// comment if the value differs from it. parse() reads the same options from this deck.
std::string print(const Options& options);
/// Name and value of every option, in the order of the table: for summary.json, the trace and the log.
std::vector<std::pair<std::string, std::string>> list(const Options& options);
/// The same for the options that differ from their defaults.
std::vector<std::pair<std::string, std::string>> changed(const Options& options);
/// The help of a command: its arguments and options, with units, ranges and defaults. That of a command with checks (`shoal
/// train`) lists all options of decks; the others refer to it.
std::string help(const CommandSpec& command);
/// The same as tables in Markdown: the reference in inputs/README.md.
std::string help_as_markdown(const CommandSpec& command);

/// ("Boost.Program_options", "1.74.0").
std::pair<std::string, std::string> library_version();

}  // namespace shoal::config
