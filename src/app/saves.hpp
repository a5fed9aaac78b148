// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a run: where they are written, and which are kept.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "setup.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/io/background_save.hpp"
#include "shoal/io/checkpoint.hpp"
#include "shoal/io/checkpoint_directory.hpp"
#include "shoal/io/lineage.hpp"

namespace shoal::app {

/// The memory that checkpoint.async copies this rank's states into; without it none.
Span<float> take_checkpoint_copy(const config::Options& options, zero::Engine& engine, Memory& memory);

class Saves {
 public:
  /// Takes the memory of take_checkpoint_copy(). directory: on rank 0, what is there already; outlives this.
  Saves(comm::World& world, const Setup& setup, Machine& machine, io::Lineage lineage, io::CheckpointDirectory* directory);

  /// Collective. Writes step_N.h5 and removes the oldest of this lineage beyond checkpoint.keep; with checkpoint.async
  /// returns when the states have been copied, and may be changed. numbers: further state, by name, that resume() gives
  /// back.
  void save(std::int64_t step, const std::map<std::string, double>& numbers = {});
  /// Collective, at the border of every step: moves a save in the background on, without waiting for it. Its error comes out
  /// here, or of save() or finish().
  void advance();
  /// Collective: until the save in the background is complete. To be called before a run ends, well or not.
  void finish();

  const std::optional<std::filesystem::path>& last() const { return last_; }  ///< complete after finish()
  double seconds() const { return seconds_; }                                 ///< for which saves held the training up
  std::uint64_t bytes() const { return bytes_; }                              ///< of all saves together, all ranks

 private:
  void complete(const std::filesystem::path& file, std::int64_t step);

  comm::World& world_;
  const Setup& setup_;
  Machine& machine_;
  std::filesystem::path path_;
  io::Lineage lineage_;
  io::CheckpointDirectory* directory_;
  std::optional<io::BackgroundSave> background_;
  std::optional<std::filesystem::path> last_;
  double seconds_ = 0;
  std::uint64_t bytes_ = 0;
};

/// The run's parameters at its end, after so many steps: nodes that differ take their mean.
void replace_by_mean(Machine& machine, std::int64_t steps);
/// Parameters that all nodes have alike, every element on one rank.
std::vector<NamedSlice> common_parameters(Machine& machine);

}  // namespace shoal::app
