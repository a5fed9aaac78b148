// SPDX-License-Identifier: Apache-2.0
// run.json in output.dir: the identity of the run in this directory, which `checkpoint.resume = latest` continues, and, for
// readers, what it computes and on what.
#pragma once

#include <filesystem>
#include <optional>

#include "app/setup/resolve.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/io/checkpoint.hpp"
#include "shoal/io/lineage.hpp"

namespace shoal::app {

inline constexpr const char* run_record_name = "run.json";

struct RunRecord {
  io::Lineage lineage;
  std::filesystem::path checkpoints;   ///< the directory of the run's checkpoints
  std::filesystem::path resumed_from;  ///< the checkpoint file; empty: the run began at step 0
};

/// Reads the record in output.dir, on rank 0. Returns nothing if there is none, because output.dir holds no run or one of an
/// older program; calls bad_input() if the record is damaged.
std::optional<RunRecord> read_run_record(const std::filesystem::path& output_dir);

/// Collective. Creates this run's identity and lineage, the same on all ranks, and writes them to output.dir, completely or
/// not at all.
io::Lineage begin_run(comm::World& world, const ResolvedRun& resolved, const std::optional<io::LoadedCheckpoint>& before);

}  // namespace shoal::app
