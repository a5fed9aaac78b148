// SPDX-License-Identifier: Apache-2.0
#include "app/checkpoint/resume.hpp"

#include "app/checkpoint/checkpoint_state.hpp"
#include "app/checkpoint/newest.hpp"
#include "app/checkpoint/run_record.hpp"
#include "app/setup/saved_slices.hpp"
#include "app/support/collective.hpp"
#include "app/support/output_paths.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/output.hpp"
#include "shoal/base/printable.hpp"
#include "shoal/kernels/bytes.hpp"

namespace shoal::app {

namespace fs = std::filesystem;

namespace {

/// The checkpoints that checkpoint.resume = latest tries, newest first. Rank 0 only.
std::vector<fs::path> latest_first(const config::Options& options, const io::CheckpointDirectory& directory) {
  const std::optional<RunRecord> record = read_run_record(options.output.dir);
  if (!record) return directory.of_lineage(std::nullopt);
  std::vector<fs::path> files = directory.of_lineage(record->lineage, record->resumed_from);
  const bool moved = files.empty() && fs::absolute(directory.path()) != record->checkpoints &&
                     !io::list_checkpoints(record->checkpoints).empty();
  require_input(!moved, directory.path().string(), ": holds no checkpoint, but the run of ", options.output.dir,
                " kept its own in ", record->checkpoints.string(), "; allowed: checkpoint.dir = that directory, or ",
                "checkpoint.resume = the path of a checkpoint");
  return files;
}

void warn_of_changes(const io::CheckpointState& state, const config::Options& options, const data::Vocabulary& vocabulary) {
  if (has_another_vocabulary(state, vocabulary)) {
    output::print("# warning: the vocabulary of the data is not that of the checkpoint: tokens have other ids now\n");
  }
  for (const auto& [name, value] : shaping_options(options)) {
    const auto before = state.scalars.find(name);
    if (before != state.scalars.end() && before->second != value) {
      output::print(text("# warning: ", name, " is ", value, " now, but was ", printable(before->second),
                         " when the checkpoint was written: losses will differ\n"));
    }
  }
}

/// If nodes train locally in this run: restores the state of their synchronization.
void resume_synchroniser(comm::World& world, const ResolvedRun& resolved, Assembly& assembly,
                         const io::LoadedCheckpoint& loaded, const io::NodeView& view) {
  if (!assembly.synchroniser) return;
  const auto kind = loaded.state.scalars.find("sync.kind");
  const bool same_kind = kind != loaded.state.scalars.end() && kind->second == name_of(resolved.options.sync.kind);
  const sync::SyncCheckpoint from = {loaded.file.string(), static_cast<std::size_t>(loaded.state.step), same_kind,
                                     loaded.state.numbers};
  const auto read = [&](const std::vector<NamedSlice>& slices) { io::load_checkpoint(world, loaded.file, slices, view); };
  const std::vector<std::string> notes = assembly.synchroniser->restore(from, read);
  for (const std::string& note : notes) {
    if (world.all().rank() == 0) output::print(text("# ", note, "\n"));
  }
}

/// Sets the residuals of quantized gradients to zero if the checkpoint has none that fit. They may hold values already, from
/// a checkpoint that was tried before and found incomplete.
void reset_residuals(const io::CheckpointState& state, Assembly& assembly, bool prints) {
  const std::string layout = assembly.engine.residual_layout();
  const auto found = state.scalars.find(residuals_text);
  if (layout.empty() || (found != state.scalars.end() && found->second == layout)) return;
  for (const NamedSlice& slice : assembly.engine.residual_slices()) {
    kernels::fill(slice.values.size(), 0, slice.values.data());
  }
  if (!prints) return;
  output::print(text("# zero.quant_feedback: residuals start at zero: the checkpoint has ",
                     found == state.scalars.end() ? "none" : printable(found->second), ", this run has ", layout, "\n"));
}

std::vector<NamedSlice> slices_to_read(const io::CheckpointState& state, Assembly& assembly) {
  std::vector<NamedSlice> slices = model_slices(assembly.engine, zero::States::Which::kept);
  const auto layout = state.scalars.find(residuals_text);
  if (layout != state.scalars.end() && layout->second == assembly.engine.residual_layout()) {
    append(slices, assembly.engine.residual_slices());
  }
  return slices;
}

void print_change_of_nodes(const io::CheckpointState& state, int nodes) {
  const int before = sync::saved_nodes(state.numbers);
  if (before == nodes || before <= 1) return;
  output::print(text("# the checkpoint is of ", before, " nodes that trained locally, this run has ", counted(nodes, "node"),
                     ": where their parameters and moments differed, their mean is used\n"));
}

}  // namespace

std::unique_ptr<io::CheckpointDirectory> open_checkpoint_directory(comm::World& world, const config::Options& options) {
  std::unique_ptr<io::CheckpointDirectory> directory;
  on_rank_0(world.all(), [&] { directory = std::make_unique<io::CheckpointDirectory>(checkpoint_directory(options)); });
  return directory;
}

std::optional<Resumed> resume(comm::World& world, const ResolvedRun& resolved, Assembly& assembly,
                              io::CheckpointDirectory* directory) {
  const config::Options& options = resolved.options;
  const std::string& asked = options.checkpoint.resume;
  if (asked == "none") return std::nullopt;
  const io::NodeView view = {assembly.groups.across.rank, assembly.groups.across.ranks};
  const auto wanted = [&](const io::CheckpointState& state) { return slices_to_read(state, assembly); };
  const bool prints = world.all().rank() == 0;
  std::optional<Resumed> loaded = asked == "latest"
                                      ? io::load_newest_checkpoint(
                                            world, [&] { return latest_first(options, *directory); }, wanted, view)
                                      : io::load_checkpoint(world, checkpoint_of(world, asked), wanted, view);
  if (!loaded) {
    if (prints) {
      output::print(text("# nothing to resume in ", checkpoint_directory(options).string(), ": the run begins at step 0\n"));
    }
    return std::nullopt;
  }
  reset_residuals(loaded->state, assembly, prints);
  const auto scale = loaded->state.numbers.find(loss_scale_number);
  assembly.engine.read_residuals_of(scale == loaded->state.numbers.end() ? 1 : scale->second);
  if (options.train.dtype != DType::f16) assembly.engine.scale_losses(1);
  resume_synchroniser(world, resolved, assembly, *loaded, view);
  assembly.engine.rebuild_parameters();
  if (prints) {
    directory->is_whole(loaded->file);
    output::print(text("# resumed from ", loaded->file.string(), ": ", counted(loaded->state.step, "step"), " done\n"));
    print_change_of_nodes(loaded->state, assembly.groups.across.ranks);
    warn_of_changes(loaded->state, options, resolved.dataset.vocabulary);
  }
  return loaded;
}

void load_parameters(comm::World& world, const fs::path& file, zero::Engine& engine) {
  io::load_checkpoint(world, file, engine.states().parameter_slices(zero::States::Which::kept));
  engine.rebuild_parameters();
}

}  // namespace shoal::app
