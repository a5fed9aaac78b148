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
constexpr const char* shaping[] = {"train.seed",   "batch.global",   "batch.micro",   "data.source",
                                   "data.shuffle", "optimizer.kind", "schedule.kind", "train.dtype"};

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

}  // namespace

Saves::Saves(comm::World& world, const Setup& setup, zero::Engine& engine)
    : world_(world), setup_(setup), engine_(engine), directory_(checkpoint_directory(setup.options)) {}

void Saves::save(std::int64_t step) {
  heartbeat::phase("checkpoint");
  const std::int64_t begin = trace::now_ns();
  on_rank_0(world_.all(), [&] { fs::create_directories(directory_); });
  const fs::path file = directory_ / io::checkpoint_name(step);
  const io::CheckpointState state{step, config::print(setup_.options), shaping_options(setup_.options)};
  {
    trace::Region region(trace::Level::steps, trace::Kind::io, "checkpoint/write");
    bytes_ += io::save_checkpoint(world_, file, state, all_slices(engine_, zero::States::Which::own),
                                  io_mode(setup_.options.checkpoint.io));
  }
  last_ = file;
  if (setup_.options.checkpoint.keep != 0) {
    on_rank_0(world_.all(), [&] { io::prune_checkpoints(directory_, static_cast<int>(setup_.options.checkpoint.keep)); });
  }
  seconds_ += static_cast<double>(trace::now_ns() - begin) * 1e-9;
}

std::optional<fs::path> checkpoint_to_resume(comm::World& world, const config::Options& options) {
  const std::string& asked = options.checkpoint.resume;
  if (asked == "none") return std::nullopt;
  if (asked != "latest") return fs::path(asked);
  std::string newest;
  on_rank_0(world.all(), [&] {
    if (const auto found = io::newest_good_checkpoint(checkpoint_directory(options))) newest = found->string();
  });
  newest = broadcast_text(world.all(), newest, 0);
  return newest.empty() ? std::nullopt : std::optional<fs::path>(newest);
}

std::int64_t resume(comm::World& world, const fs::path& file, const Setup& setup, zero::Engine& engine) {
  const io::CheckpointState state = io::load_checkpoint(world, file, all_slices(engine, zero::States::Which::kept));
  engine.refresh();
  if (world.all().rank() == 0) {
    std::printf("# resumed from %s: %lld steps are done\n", file.c_str(), static_cast<long long>(state.step));
    for (const auto& [name, value] : shaping_options(setup.options)) {
      const auto before = state.scalars.find(name);
      if (before != state.scalars.end() && before->second != value) {
        std::printf("# warning: %s is %s now and was %s when the checkpoint was written: the trajectory will differ\n",
                    name.c_str(), value.c_str(), before->second.c_str());
      }
    }
  }
  return state.step;
}

void load_parameters(comm::World& world, const fs::path& file, zero::Engine& engine) {
  io::load_checkpoint(world, file, engine.states().parameter_slices(zero::States::Which::kept));
  engine.refresh();
}

}  // namespace shoal::app
