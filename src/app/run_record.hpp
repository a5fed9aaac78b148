// SPDX-License-Identifier: Apache-2.0
// run.json in output.dir: which run the directory holds, so that `checkpoint.resume = latest` goes on with that one.
#pragma once

#include <filesystem>
#include <optional>

#include "resume.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/config/options.hpp"
#include "shoal/io/lineage.hpp"

namespace shoal::app {

inline constexpr const char* run_record_name = "run.json";

struct RunRecord {
  io::Lineage lineage;
  std::filesystem::path checkpoints;   ///< the directory that the run writes them to
  std::filesystem::path resumed_from;  ///< the file; empty: the run began at step 0
};

/// Of output.dir; nothing where it holds no run, or one of an older program. bad_input(): it cannot be understood. Rank 0
/// only.
std::optional<RunRecord> read_run_record(const std::filesystem::path& output_dir);

/// Collective. This run's identity and lineage, the same on all ranks, which from now on the run of output.dir is: rank 0
/// writes them there, complete or not at all.
io::Lineage begin_run(comm::World& world, const config::Options& options, const std::optional<Resumed>& resumed);

}  // namespace shoal::app
