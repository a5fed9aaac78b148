// SPDX-License-Identifier: Apache-2.0
#include "app/train/saves.hpp"

#include <algorithm>

#include "app/checkpoint/checkpoint_state.hpp"
#include "app/setup/extra_memory.hpp"
#include "app/support/collective.hpp"
#include "app/support/output_paths.hpp"
#include "app/support/version.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/output.hpp"
#include "shoal/base/printable.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/io/checkpoint.hpp"

namespace shoal::app {

namespace fs = std::filesystem;

namespace {

/// Adds the time from its construction to its destruction to `seconds`.
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

/// Collective. Returns true if the nodes have read parameters of their own from the checkpoint.
bool have_own_parameters(comm::World& world, const Assembly& assembly, const io::LoadedCheckpoint& from) {
  if (sync::saved_nodes(from.state.numbers) != assembly.groups.across.ranks) return false;
  std::uint64_t own = 0;
  on_rank_0(world.all(), [&] {
    const std::string prefix = io::node_dataset(0, "/parameters/");
    for (const io::CheckpointDataset& dataset : io::describe_checkpoint(from.file).datasets) {
      if (dataset.name.starts_with(prefix)) own = 1;
    }
  });
  world.all().broadcast(comm::bytes_of(Span<std::uint64_t>(&own, 1)), 0).wait();
  return own != 0;
}

}  // namespace

Saves::Saves(comm::World& world, const ResolvedRun& resolved, Assembly& assembly, io::Lineage lineage,
             io::CheckpointDirectory* directory, Faults& faults)
    : world_(world),
      resolved_(resolved),
      assembly_(assembly),
      path_(checkpoint_directory(resolved.options)),
      lineage_(std::move(lineage)),
      directory_(directory),
      vocabulary_(identity_of(resolved.dataset.vocabulary)),
      faults_(faults) {
  const Span<float> copy = take_checkpoint_copy(resolved.options, assembly.engine, assembly.memory);
  if (resolved.options.checkpoint.async) background_.emplace(world, copy);
}

void Saves::save(std::int64_t step, const std::map<std::string, double>& numbers, std::optional<std::int64_t> spared) {
  heartbeat::phase("checkpoint");
  finish();  // an earlier save, which may still be under way
  const Stopwatch watch(seconds_);
  begin_ns_ = trace::now_ns();
  on_rank_0(world_.all(), [&] {
    fs::create_directories(path_);
    directory_->remove_unfinished();
    directory_->wait_for_space();  // also for the space of the checkpoints that were deleted after the last save
  });
  const fs::path file = path_ / io::checkpoint_name(step);
  auto [state, slices] = contents_to_write(resolved_.options, assembly_, step, numbers);
  state.lineage = lineage_;
  state.program = "shoal " + version();
  if (!vocabulary_.empty()) state.scalars[vocabulary_text] = vocabulary_;
  state.scalars[ranks_text] = text(counted(world_.size(), "rank"), " on ", counted(world_.topology().nodes(), "node"));
  last_ = file;
  if (background_) {
    bytes_ += background_->start(file, state, slices, [this, file, step, spared] { complete(file, step, spared); });
    return;
  }
  {
    const std::uint64_t own_bytes = io::BackgroundSave::copy_elements(slices) * sizeof(float);
    const trace::Region region(trace::Level::steps, trace::Kind::io, "checkpoint/write", own_bytes);
    // What is on a disk passes through memory piece by piece.
    const zero::OffloadOptions& offload = resolved_.options.offload;
    const bool moved = offload.optimizer == Where::nvme || offload.params == Where::nvme;
    const io::IoMode mode = moved ? io::IoMode::independent : resolved_.options.checkpoint.io;
    bytes_ += io::save_checkpoint(world_, file, state, slices, mode);
  }
  on_rank_0(world_.all(), [&] { complete(file, step, spared); });
  measure();
}

/// Called on rank 0; with checkpoint.async on the saving thread.
void Saves::complete(const fs::path& file, std::int64_t step, std::optional<std::int64_t> spared) {
  directory_->wrote(file, {lineage_, step});
  faults_.wrote(file, static_cast<std::size_t>(step));
  const int keep = static_cast<int>(resolved_.options.checkpoint.keep);
  for (const std::string& line : directory_->prune(lineage_, keep, spared)) {
    output::print(text("# warning: ", printable(line), "\n"));
  }
  if (background_) directory_->wait_for_space();
}

void Saves::advance() {
  const Stopwatch watch(seconds_);
  if (!under_way()) return;
  background_->advance();
  if (!under_way()) measure();
}

void Saves::finish() {
  const Stopwatch watch(seconds_);
  if (!under_way()) return;
  background_->finish();
  measure();
}

void Saves::measure() { longest_s_ = std::max(longest_s_, static_cast<double>(trace::now_ns() - begin_ns_) * 1e-9); }

void replace_by_mean(comm::World& world, Assembly& assembly, std::int64_t steps, const io::LoadedCheckpoint* unchanged) {
  if (!assembly.synchroniser) return;
  const bool differ = assembly.synchroniser->schedule().nodes_differ_after(static_cast<std::size_t>(steps)) ||
                      (unchanged != nullptr && have_own_parameters(world, assembly, *unchanged));
  if (!differ) return;
  assembly.engine.change_masters([&] { assembly.synchroniser->replace_by_mean(); });
}

std::vector<NamedSlice> common_parameters(Assembly& assembly) {
  if (assembly.synchroniser) return assembly.synchroniser->common_parameters();
  return assembly.engine.states().parameter_slices(zero::States::Which::own);
}

}  // namespace shoal::app
