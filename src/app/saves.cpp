// SPDX-License-Identifier: Apache-2.0
#include "saves.hpp"

#include <cstdio>
#include <map>

#include "collective.hpp"
#include "output.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/io/checkpoint.hpp"

namespace shoal::app {

namespace fs = std::filesystem;

namespace {

/// Options that the rest of the trajectory depends on: kept as text beside the tensors.
constexpr const char* shaping[] = {"train.seed",     "batch.global",       "batch.micro",   "data.source", "data.shuffle",
                                   "optimizer.kind", "optimizer.adascale", "schedule.kind", "train.dtype"};

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
  for (NamedSlice& slice : engine.states().moment_slices(which)) slices.push_back(std::move(slice));
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
                  name.c_str(), value.c_str(), before->second.c_str());
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
    : world_(world), setup_(setup), engine_(machine.engine), directory_(checkpoint_directory(setup.options)) {
  const Span<float> copy = take_checkpoint_copy(setup.options, machine.engine, machine.memory);
  if (setup.options.checkpoint.async) background_.emplace(world, copy);
}

void Saves::save(std::int64_t step, const std::map<std::string, double>& numbers) {
  heartbeat::phase("checkpoint");
  const Stopwatch watch(seconds_);
  on_rank_0(world_.all(), [&] { fs::create_directories(directory_); });
  const fs::path file = directory_ / io::checkpoint_name(step);
  const io::CheckpointState state{step, config::print(setup_.options), shaping_options(setup_.options), numbers};
  const std::vector<NamedSlice> slices = all_slices(engine_, zero::States::Which::own);
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

std::optional<io::CheckpointState> resume(comm::World& world, const Setup& setup, zero::Engine& engine) {
  const std::string& asked = setup.options.checkpoint.resume;
  if (asked == "none") return std::nullopt;
  const std::vector<NamedSlice> slices = all_slices(engine, zero::States::Which::kept);
  std::optional<io::LoadedCheckpoint> loaded;
  if (asked == "latest") {
    loaded = io::load_newest_checkpoint(world, checkpoint_directory(setup.options), slices);
  } else {
    loaded = io::LoadedCheckpoint{asked, io::load_checkpoint(world, asked, slices)};
  }
  if (!loaded) return std::nullopt;
  engine.refresh();
  if (world.all().rank() == 0) {
    std::printf("# resumed from %s: %lld steps are done\n", loaded->file.c_str(),
                static_cast<long long>(loaded->state.step));
    warn_of_changes(loaded->state, setup.options);
  }
  return loaded->state;
}

void load_parameters(comm::World& world, const fs::path& file, zero::Engine& engine) {
  io::load_checkpoint(world, file, engine.states().parameter_slices(zero::States::Which::kept));
  engine.refresh();
}

}  // namespace shoal::app
