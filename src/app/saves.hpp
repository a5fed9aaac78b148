// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a run: when and where they are written, and what is resumed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "setup.hpp"
#include "shoal/comm/world.hpp"

namespace shoal::app {

class Saves {
 public:
  Saves(comm::World& world, const Setup& setup, zero::Engine& engine);
  /// Collective. Writes step_N.h5 and removes the oldest beyond checkpoint.keep.
  void save(std::int64_t step);

  const std::optional<std::filesystem::path>& last() const { return last_; }
  double seconds() const { return seconds_; }     ///< of all saves together
  std::uint64_t bytes() const { return bytes_; }  ///< of all saves together, all ranks

 private:
  comm::World& world_;
  const Setup& setup_;
  zero::Engine& engine_;
  std::filesystem::path directory_;
  std::optional<std::filesystem::path> last_;
  double seconds_ = 0;
  std::uint64_t bytes_ = 0;
};

/// The file that checkpoint.resume names: the newest good one of checkpoint.dir (latest; none if the directory has none), or
/// the file itself. Collective.
std::optional<std::filesystem::path> checkpoint_to_resume(comm::World& world, const config::Options& options);

/// Loads parameters, moments and position; returns the number of steps done. Options that shape the trajectory and differ
/// from the checkpoint's are named in the log. Collective.
std::int64_t resume(comm::World& world, const std::filesystem::path& file, const Setup& setup, zero::Engine& engine);

/// Parameters alone, for evaluation, generation and export.
void load_parameters(comm::World& world, const std::filesystem::path& file, zero::Engine& engine);

}  // namespace shoal::app
