// SPDX-License-Identifier: Apache-2.0
#include "saves.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

#include "collective.hpp"
#include "output.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/printable.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/io/checkpoint.hpp"

namespace shoal::app {

namespace fs = std::filesystem;

namespace {

/// Options that the rest of the trajectory depends on: kept as text beside the tensors.
constexpr const char* shaping[] = {"train.seed",        "batch.global",   "batch.micro",        "data.source",
                                   "data.shuffle",      "optimizer.kind", "optimizer.adascale", "schedule.kind",
                                   "train.dtype",       "sync.kind",      "sync.average_dtype", "sync.average_overlap",
                                   "sync.average_delay"};

std::map<std::string, std::string> shaping_options(const config::Options& options) {
  std::map<std::string, std::string> result;
  for (const auto& [name, value] : config::list(options)) {
    for (const char* const wanted : shaping) {
      if (name == wanted) result[name] = value;
    }
  }
  return result;
}

io::IoMode io_mode(const std::string& name) {
  return name == "independent"  ? io::IoMode::independent
         : name == "collective" ? io::IoMode::collective
                                : io::IoMode::automatic;
}

std::vector<NamedSlice> all_slices(zero::Engine& engine, zero::States::Which which) {
  std::vector<NamedSlice> slices = engine.states().parameter_slices(which);
  append(slices, engine.states().moment_slices(which));
  return slices;
}

constexpr const char* nodes_number = "sync/nodes";    // that wrote the checkpoint, where they train apart
constexpr const char* outer_number = "sync/outer";    // 1: it has the outer update's state
constexpr const char* common_number = "sync/common";  // 1: it has what nodes had in common when they met last
constexpr const char* pushed_number = "sync/push";    // 1: it has an exchange under way
constexpr const char* mean_number = "sync/mean";      // 1: it has a mean under way
constexpr const char* lost_number = "sync/lost";      // 1: it has what quantization took from means

/// This node's tensors, and that every other node has its own: all ranks list the same.
std::vector<NamedSlice> per_node(const std::vector<NamedSlice>& own, const sync::Placement& place) {
  std::vector<NamedSlice> all;
  for (int n = 0; n < place.across.ranks; ++n) {
    for (NamedSlice slice : own) {
      slice.dataset = io::node_dataset(n, slice.dataset);
      if (n != place.across.rank) {
        slice.range = {};
        slice.values = {};
      }
      all.push_back(std::move(slice));
    }
  }
  return all;
}

/// Whether nodes warmed up until then: a checkpoint is that of ranks which are always in step.
bool was_in_step(const sync::Synchroniser& synchroniser, std::int64_t steps) {
  return synchroniser.schedule().warms_up(static_cast<std::size_t>(steps));
}

/// What a checkpoint after so many steps holds, every element listed by one rank.
std::vector<NamedSlice> slices_to_write(Machine& machine, std::int64_t steps) {
  constexpr auto own = zero::States::Which::own;
  if (!machine.synchroniser) return all_slices(machine.engine, own);
  sync::Synchroniser& synchroniser = *machine.synchroniser;
  const sync::Placement& place = machine.place;
  if (was_in_step(synchroniser, steps)) {
    std::vector<NamedSlice> slices = synchroniser.common_parameters();
    append(slices, synchroniser.common_moments());
    return slices;
  }
  if (place.across.ranks == 1) {
    std::vector<NamedSlice> slices = all_slices(machine.engine, own);
    append(slices, synchroniser.common_slices());
    append(slices, synchroniser.node_slices());
    return slices;
  }
  std::vector<NamedSlice> apart = machine.engine.states().moment_slices(own), slices;
  append(apart, synchroniser.node_slices());
  if (synchroniser.schedule().differ(static_cast<std::size_t>(steps))) {
    append(apart, machine.engine.states().parameter_slices(own));
  } else {
    slices = synchroniser.common_parameters();
  }
  append(slices, synchroniser.common_slices());
  append(slices, per_node(apart, place));
  return slices;
}

/// Adds the time until it goes to `seconds`.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += static_cast<double>(trace::now_ns() - begin_) * 1e-9; }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  std::int64_t begin_ = trace::now_ns();
};

void warn_of_changes(const io::CheckpointState& state, const config::Options& options) {
  for (const auto& [name, value] : shaping_options(options)) {
    const auto before = state.scalars.find(name);
    if (before != state.scalars.end() && before->second != value) {
      std::printf("# warning: %s is %s now and was %s when the checkpoint was written: the trajectory will differ\n",
                  name.c_str(), value.c_str(), printable(before->second).c_str());
    }
  }
}

}  // namespace

Span<float> take_checkpoint_copy(const config::Options& options, zero::Engine& engine, Memory& memory) {
  if (!options.checkpoint.async) return {};
  const std::size_t elements = io::BackgroundSave::copy_elements(all_slices(engine, zero::States::Which::own));
  return memory.take<float>(Kind::buffers, elements, "checkpoint copy");
}

Saves::Saves(comm::World& world, const Setup& setup, Machine& machine)
    : world_(world), setup_(setup), machine_(machine), directory_(checkpoint_directory(setup.options)) {
  const Span<float> copy = take_checkpoint_copy(setup.options, machine.engine, machine.memory);
  if (setup.options.checkpoint.async) background_.emplace(world, copy);
}

void Saves::save(std::int64_t step, const std::map<std::string, double>& numbers) {
  heartbeat::phase("checkpoint");
  const Stopwatch watch(seconds_);
  on_rank_0(world_.all(), [&] { fs::create_directories(directory_); });
  const fs::path file = directory_ / io::checkpoint_name(step);
  io::CheckpointState state{step, config::print(setup_.options), shaping_options(setup_.options), numbers};
  if (machine_.synchroniser && !was_in_step(*machine_.synchroniser, step)) {
    state.numbers[nodes_number] = machine_.place.across.ranks;
    state.numbers[outer_number] = machine_.synchroniser->schedule().has_outer() ? 1 : 0;
    state.numbers[common_number] = machine_.synchroniser->parameters_in_common().empty() ? 0 : 1;
    state.numbers[pushed_number] = machine_.synchroniser->exchange_under_way() ? 1 : 0;
    state.numbers[mean_number] = machine_.synchroniser->mean_under_way() ? 1 : 0;
    state.numbers[lost_number] = machine_.synchroniser->lost_slices().empty() ? 0 : 1;
  }
  const std::vector<NamedSlice> slices = slices_to_write(machine_, step);
  const int keep = static_cast<int>(setup_.options.checkpoint.keep);
  last_ = file;
  if (background_) {
    bytes_ += background_->start(file, state, slices, keep);
    return;
  }
  {
    const std::uint64_t own_bytes = io::BackgroundSave::copy_elements(slices) * sizeof(float);
    const trace::Region region(trace::Level::steps, trace::Kind::io, "checkpoint/write", own_bytes);
    bytes_ += io::save_checkpoint(world_, file, state, slices, io_mode(setup_.options.checkpoint.io));
  }
  if (keep != 0) on_rank_0(world_.all(), [&] { io::prune_checkpoints(directory_, keep); });
}

void Saves::advance() {
  const Stopwatch watch(seconds_);
  if (background_) background_->advance();
}

void Saves::finish() {
  const Stopwatch watch(seconds_);
  if (background_) background_->finish();
}

namespace {

double number_of(const io::CheckpointState& state, const char* name) {
  const auto found = state.numbers.find(name);
  return found == state.numbers.end() ? 0 : found->second;
}

int nodes_before(const io::CheckpointState& state) { return static_cast<int>(number_of(state, nodes_number)); }

/// What the file says of nodes that trained apart, where this run's do too: the rest of their state.
void resume_synchroniser(comm::World& world, const Setup& setup, Machine& machine, const io::LoadedCheckpoint& loaded,
                         const io::NodeView& view) {
  if (!machine.synchroniser) return;
  const auto has = [&](const char* name) { return number_of(loaded.state, name) != 0; };
  sync::Synchroniser& synchroniser = *machine.synchroniser;
  const std::int64_t steps = loaded.state.step;
  require_input(nodes_before(loaded.state) <= 1 || !was_in_step(synchroniser, steps + 1),
                "sync.warmup_steps = ", setup.options.sync.warmup_steps, ": the nodes that wrote ", loaded.file.string(),
                " trained apart, and after ", steps, " steps they have no gradient in common; allowed: up to ", steps);
  const auto kind = loaded.state.scalars.find("sync.kind");
  const bool of_this_kind = kind != loaded.state.scalars.end() && kind->second == setup.options.sync.kind;
  const bool exchange = of_this_kind && has(pushed_number) && synchroniser.overlaps();
  const bool in_differences = !synchroniser.parameters_in_common().empty();
  // A mean of parameters themselves can not become one of differences, nor the other way round.
  const bool mean =
      of_this_kind && has(mean_number) && synchroniser.schedule().overlaps() && has(common_number) == in_differences;
  const bool left_out = has(mean_number) && !mean;
  const bool outer = of_this_kind && has(outer_number) && synchroniser.schedule().has_outer() && !left_out;
  synchroniser.begin();
  std::vector<NamedSlice> slices;
  if (outer) append(slices, synchroniser.outer_slices());
  if (exchange) append(slices, synchroniser.exchange_slices());
  if (mean) append(slices, synchroniser.mean_slices());
  if (has(common_number)) append(slices, synchroniser.parameters_in_common());
  if (has(lost_number) && nodes_before(loaded.state) == view.nodes) append(slices, synchroniser.lost_slices());
  if (!slices.empty()) io::load_checkpoint(world, loaded.file, slices, view);
  if (exchange) synchroniser.restore_exchange();
  if (mean) synchroniser.restore_mean();
  if (world.all().rank() != 0) return;
  if (left_out) std::printf("# a mean that was on its way between nodes when the checkpoint was written is left out\n");
  if (synchroniser.schedule().has_outer() && !outer && !was_in_step(synchroniser, steps)) {
    std::printf("# the checkpoint has no outer update that this run could go on with: it begins here, at rest\n");
  }
}

void tell_of_nodes(const io::CheckpointState& state, int nodes) {
  const int before = nodes_before(state);
  if (before == nodes || before <= 1) return;
  std::printf(
      "# the checkpoint is of %d nodes that trained apart, this run has %d: parameters and moments that differed are "
      "their mean\n",
      before, nodes);
}

}  // namespace

std::optional<io::CheckpointState> resume(comm::World& world, const Setup& setup, Machine& machine) {
  const std::string& asked = setup.options.checkpoint.resume;
  if (asked == "none") return std::nullopt;
  const std::vector<NamedSlice> slices = all_slices(machine.engine, zero::States::Which::kept);
  const io::NodeView view = {machine.place.across.rank, machine.place.across.ranks};
  std::optional<io::LoadedCheckpoint> loaded;
  if (asked == "latest") {
    loaded = io::load_newest_checkpoint(world, checkpoint_directory(setup.options), slices, view);
  } else {
    loaded = io::LoadedCheckpoint{asked, io::load_checkpoint(world, asked, slices, view)};
  }
  if (!loaded) return std::nullopt;
  resume_synchroniser(world, setup, machine, *loaded, view);
  machine.engine.refresh();
  if (world.all().rank() == 0) {
    std::printf("# resumed from %s: %lld steps are done\n", loaded->file.c_str(),
                static_cast<long long>(loaded->state.step));
    tell_of_nodes(loaded->state, machine.place.across.ranks);
    warn_of_changes(loaded->state, setup.options);
  }
  return loaded->state;
}

void take_average(Machine& machine, std::int64_t steps) {
  if (!machine.synchroniser || !machine.synchroniser->schedule().differ(static_cast<std::size_t>(steps))) return;
  machine.engine.settle();
  machine.synchroniser->take_average();
  machine.engine.refresh();
}

std::vector<NamedSlice> common_parameters(Machine& machine) {
  if (machine.synchroniser) return machine.synchroniser->common_parameters();
  return machine.engine.states().parameter_slices(zero::States::Which::own);
}

void load_parameters(comm::World& world, const fs::path& file, zero::Engine& engine) {
  io::load_checkpoint(world, file, engine.states().parameter_slices(zero::States::Which::kept));
  engine.refresh();
}

}  // namespace shoal::app
