// SPDX-License-Identifier: Apache-2.0
// Where a training writes. All of it is found out before anything is computed: that the directories can be made and written
// to, that no other run is in them, and that what stands there already may be replaced.
#pragma once

#include <memory>
#include <string>

#include "setup.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/io/directory_lock.hpp"

namespace shoal::app {

/// Rank 0, before a run that is only tried (--dry-run): whether its directories could be written to. Changes nothing.
void require_writable(const config::Options& options);

/// output.dir and checkpoint.dir while a run is in them. All functions but lost() are collective, with the same error on all
/// ranks.
class RunFiles {
 public:
  /// Makes output.dir where it is absent, and locks it (io/directory_lock.hpp), and checkpoint.dir where the options say
  /// that checkpoints are written or looked for. What another run left in output.dir is refused, unless that is resumed or
  /// may be overwritten: then the files that it wrote are removed, and no other.
  RunFiles(comm::World& world, const config::Options& options);

  /// Before a checkpoint is written: makes checkpoint.dir where it is absent, and locks it.
  void enter_checkpoints();

  /// Whether a directory is this run's no longer, as rank 0 knows it: a reason to stop at the next step's border.
  bool lost() const;
  /// fail() on all ranks where it is so at this moment.
  void check();

 private:
  void take(std::unique_ptr<io::DirectoryLock>& lock, const std::string& option, const std::filesystem::path& directory);

  comm::World& world_;
  const config::Options& options_;
  std::unique_ptr<io::DirectoryLock> output_, checkpoints_;  // on rank 0
  bool in_checkpoints_ = false;                              // on all ranks
};

}  // namespace shoal::app
