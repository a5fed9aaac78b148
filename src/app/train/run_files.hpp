// SPDX-License-Identifier: Apache-2.0
// The directories of a run. It checks before it computes anything: that they can be created and written to, that no other
// run uses them, and that existing files may be replaced.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "app/setup/resolve.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/io/directory_lock.hpp"

namespace shoal::app {

/// On rank 0, for --dry-run: fails if the run's directories cannot be written to. Changes nothing.
void require_writable(const config::Options& options);

/// output.dir and checkpoint.dir while a run uses them. All functions but lost() are collective, with the same error on all
/// ranks.
class RunFiles {
 public:
  /// Creates output.dir if needed and locks it (io/directory_lock.hpp); the same for checkpoint.dir if the options make the
  /// run read or write checkpoints. Fails if output.dir holds another run, unless this run resumes it or may overwrite it.
  /// In the latter case removes the files that it wrote, and no others.
  RunFiles(comm::World& world, const config::Options& options);

  /// Before a checkpoint is written: creates checkpoint.dir if needed, and locks it.
  void enter_checkpoints();

  /// Returns true if rank 0 has noticed that a directory is no longer this run's. Then the run stops after the step.
  bool lost() const;
  /// Calls fail() on all ranks if it is so now.
  void check();

 private:
  void take(
      std::unique_ptr<io::DirectoryLock>& lock, const std::string& option, const std::filesystem::path& directory,
      const std::function<bool()>& is_needed = [] { return true; });

  comm::World& world_;
  const config::Options& options_;
  std::unique_ptr<io::DirectoryLock> output_, checkpoints_;  // on rank 0
  bool in_checkpoints_ = false;                              // on all ranks
};

}  // namespace shoal::app
