// SPDX-License-Identifier: Apache-2.0
// Writes the checkpoints of a run and deletes old ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "app/setup/assembly.hpp"
#include "app/setup/resolve.hpp"
#include "app/train/faults.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/io/background_save.hpp"
#include "shoal/io/checkpoint.hpp"
#include "shoal/io/checkpoint_directory.hpp"
#include "shoal/io/lineage.hpp"

namespace shoal::app {

class Saves {
 public:
  /// Takes the memory of take_checkpoint_copy(). directory: the existing checkpoints, on rank 0; it and faults must outlive
  /// this.
  Saves(comm::World& world, const ResolvedRun& resolved, Assembly& assembly, io::Lineage lineage,
        io::CheckpointDirectory* directory, Faults& faults);

  /// Collective. Writes step_N.h5 and deletes the oldest checkpoints of this lineage if there are more than checkpoint.keep,
  /// but for that of the step `spared`. With checkpoint.async it returns when the states have been copied, so that they may
  /// change. numbers: further state, by name, that resume() returns.
  void save(std::int64_t step, const std::map<std::string, double>& numbers, std::optional<std::int64_t> spared);
  /// Collective, between two steps: lets a save in the background progress, without waiting for it. An error of that save is
  /// thrown here, or by save() or finish().
  void advance();
  /// Collective: waits until the save in the background is complete. To be called before a run ends, even with an error.
  void finish();

  const std::optional<std::filesystem::path>& last() const { return last_; }  ///< complete after finish()
  double seconds() const { return seconds_; }                                 ///< for which the training waited for saves
  double longest_s() const { return longest_s_; }  ///< from the begin of a save until its file was complete
  bool under_way() const { return background_ && background_->under_way(); }  ///< a save in the background
  std::uint64_t bytes() const { return bytes_; }                              ///< of all saves, by all ranks

 private:
  void complete(const std::filesystem::path& file, std::int64_t step, std::optional<std::int64_t> spared);
  void measure();

  comm::World& world_;
  const ResolvedRun& resolved_;
  Assembly& assembly_;
  std::filesystem::path path_;
  io::Lineage lineage_;
  io::CheckpointDirectory* directory_;
  std::string vocabulary_;  // what checkpoints say of it
  Faults& faults_;
  std::optional<io::BackgroundSave> background_;
  std::optional<std::filesystem::path> last_;
  double seconds_ = 0, longest_s_ = 0;
  std::int64_t begin_ns_ = 0;  // of the last save
  std::uint64_t bytes_ = 0;
};

/// Collective, at the end of the run, after `steps` steps: if the nodes' parameters differ, replaces them by their mean.
/// unchanged: the checkpoint that the run was resumed from, if it has made no step since; otherwise null. Its nodes may
/// differ where those of this run's schedule would not.
void replace_by_mean(comm::World& world, Assembly& assembly, std::int64_t steps, const io::LoadedCheckpoint* unchanged);
/// The parameters, if all nodes have the same: every element on one rank.
std::vector<NamedSlice> common_parameters(Assembly& assembly);

}  // namespace shoal::app
