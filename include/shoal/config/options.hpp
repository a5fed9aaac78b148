// SPDX-License-Identifier: Apache-2.0
// Everything a run can be told. Options of one module stand in its own header; those of the program itself are here. The
// table in config/table.hpp gives each its name, type, unit, range and help, once.
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
#include "shoal/io/io_mode.hpp"
#include "shoal/model/model.hpp"
#include "shoal/optim/adascale.hpp"
#include "shoal/optim/loss_scale.hpp"
#include "shoal/optim/optimizer.hpp"
#include "shoal/optim/schedule.hpp"
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
  int threads = 0;         ///< 0: auto
  double grad_clip = 1.0;  ///< largest global norm; 0: no clipping
  std::size_t log_every = 10;
  std::size_t eval_every = 0;    ///< steps between evaluations on the validation split; 0: at the end only, if there is one
  std::size_t eval_batches = 0;  ///< global batches per evaluation; 0: the whole split
  OnNan on_nan = OnNan::stop;
  double stop_after = 0;  ///< seconds; 0: no limit
};

struct CheckpointOptions {
  std::string dir;              ///< empty: output.dir/checkpoints
  std::size_t every = 0;        ///< steps; 0: off
  std::size_t keep = 3;         ///< 0: all
  std::string resume = "none";  ///< none, latest, or a file
  io::IoMode io = io::IoMode::automatic;
  bool async = false;  ///< write from a copy while the training goes on
};

struct TraceOptions {
  std::string file;  ///< empty: output.dir/trace.h5
  trace::Level level = trace::Level::comm;
  std::size_t interval = 20;  ///< steps between collective writes
};

struct OutputOptions {
  std::string dir = "out";
  std::string export_dir;  ///< output.export: Hugging Face weights after the last step; empty: none
  bool overwrite = false;
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
  comm::CommOptions comm;
  sync::SyncOptions sync;
  CheckpointOptions checkpoint;
  TraceOptions trace;
  OutputOptions output;
  model::ActivationOptions activation;
  optim::LossScaleOptions loss_scale;      ///< train.loss_scale*: used with dtype fp16
  double memory_limit_gib = 0;             ///< memory.limit: per rank; 0: what the node has, divided by its ranks
  std::map<std::string, Value> not_built;  ///< options whose feature is not there yet, where they differ from their defaults
};

/// What the command line of a command may hold; the help is made of it. The defaults are those of a command that trains:
/// `shoal train [DECK] [--section.name=value ...] [--dry-run] [--print-config] [--ranks N]`. Others say what they take:
///     {.name = "generate", .summary = "continue a text", .arguments = {"CHECKPOINT"}, .checks = false,
///      .own = {{"prompt", std::string("\n"), "", any(), "text to continue"},
///              {"tokens", std::uint64_t{100}, "tokens", at_least(1), "how many to add"}}}
struct CommandSpec {
  /// An option of this command alone, without a section: `--tokens 40`. Read by Invocation::own<std::uint64_t>("tokens").
  struct Own {
    std::string name;
    Value value;  ///< the default; its alternative is the type
    std::string unit;
    Allowed allowed;
    std::string help;
  };

  std::string name;
  std::string summary;  ///< one line
  /// What stands on the line besides options, in order: "FILE", "[DIR]" may be absent, "INPUT..." one or more (once at
  /// most). The one named DECK is read as the deck; the others come as Invocation::arguments.
  std::vector<std::string> arguments = {"[DECK]"};
  bool options = true;  ///< takes --section.name=value and --deepspeed FILE
  bool checks = true;   ///< takes --dry-run, --print-config and --ranks N
  std::vector<Own> own = {};
};

/// What a DeepSpeed configuration says that follows only when the ranks and the model are known: validate() does it.
struct DeepSpeedRest {
  std::size_t accumulation = 0;                  ///< micro-batches per rank and step; 0: not given
  std::optional<std::size_t> prefetch_elements;  ///< parameters gathered ahead
  std::string accumulation_place, prefetch_place;
};

/// A key of it that asks for a feature that is not there yet, and has no option.
struct DeepSpeedAbsent {
  std::string key;
  std::string sentence;  ///< "FILE:LINE: KEY = VALUE: not built yet: KEY; ..."
};

/// What the command line asked for besides options.
struct Invocation {
  Options options;
  Places places;                       ///< of every option that was set
  std::vector<std::string> arguments;  ///< what is neither an option nor the deck
  std::string deck;                    ///< path of the deck, empty if none
  bool help = false, help_as_markdown = false, dry_run = false, print_config = false;
  int ranks = 0;                       ///< --ranks N: check for N ranks; 0: as started
  std::vector<std::string> not_built;  ///< keys that were set but whose feature is not there yet
  std::vector<std::string> notes;      ///< for the log: what became of a DeepSpeed configuration's keys
  bool deepspeed = false;              ///< a DeepSpeed configuration was given
  DeepSpeedRest deepspeed_rest;
  std::vector<DeepSpeedAbsent> deepspeed_absent;  ///< among not_built
  std::map<std::string, Value> own_values;

  /// The command's own option `name`; T is the alternative of its default.
  template <typename T>
  const T& own(const std::string& name) const {
    return std::get<T>(own_values.at(name));
  }
  /// The same of an option whose choices are the names of an enum.
  template <HasNames E>
  E own_named(const std::string& name) const {
    return value_named<E>(own<std::string>(name)).value();
  }
};

/// Parses what follows the command's name. Defaults < deck < --deepspeed FILE < command line; a deck and a DeepSpeed
/// configuration that give an option different values are an error. Everything that is wrong is found at once and
/// thrown as one Error (bad_input) with a line each, the deck's in the order of its lines, then the command line's:
/// "FILE:LINE: section.name = value: what is wrong; allowed: ...". With --help nothing else is looked at.
Invocation parse(const CommandSpec& command, int argc, const char* const* argv);

/// Contradictions and divisibility for this number of ranks, all at once, as one Error with a line each. Fills what follows
/// from other options (batch.global = 0; schedule.total_steps = 0 where the schedule needs it). vocab_size may still be 0
/// (the data brings it). Options whose feature is not there yet are refused here ("not built yet: KEY"), unless --dry-run or
/// --print-config was given: then the caller names those of Invocation::not_built.
void validate(Invocation& invocation, int ranks);

/// Why zero.stage = 3 does not go with stochastic gradient push where `sync_group_size` ranks share states out and a node
/// has `on_node` ranks (0 where that is not known); empty if it does. Nodes push whole copies to each other: a node must
/// have one, and it must be the node's alone.
std::string sgp_stage3_problem(int sync_group_size, int on_node);

/// The resolved deck: every option that is built or was set, in the table's order, with the default where it is another one;
/// parse() reads back the same options, which print the same text.
std::string print(const Options& options);
/// (name, value) of every option, in the table's order: for summary.json, the trace and the log.
std::vector<std::pair<std::string, std::string>> list(const Options& options);
/// The help of a command: what it takes, with units, ranges and defaults. That of a command with checks (`shoal train`)
/// lists all options of decks; the others point to it.
std::string help(const CommandSpec& command);
/// The same as tables in Markdown: the reference in inputs/README.md.
std::string help_as_markdown(const CommandSpec& command);

/// ("Boost.Program_options", "1.74.0").
std::pair<std::string, std::string> library_version();

}  // namespace shoal::config
