// SPDX-License-Identifier: Apache-2.0
// Measures the disk of a tier (shoal/io/nvme_tier.hpp), by size and number of requests, in the way in which a run uses it:
// all ranks at the same time, in files without a name, past the system's cache.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "shoal/comm/world.hpp"
#include "shoal/io/nvme_options.hpp"

namespace shoal::app {

/// Rates of the slowest rank, in bytes/s.
struct TierRow {
  std::size_t request_bytes = 0, depth = 0;
  double write_rate = 0, read_rate = 0;
};
struct TierBench {
  io::DiskAccess access{};
  bool direct = false;
  std::vector<std::string> warnings;
  std::vector<TierRow> rows;
};

/// Collective over all ranks: each writes `bytes` to options.dir, and reads them again, for each kind of requests. options'
/// requests do not matter. Calls `done` on all ranks with each row as soon as it is measured. bytes: filled up to whole MiB.
TierBench bench_tiers(comm::World& world, const io::NvmeOptions& options, std::size_t bytes,
                      const std::function<void(const TierRow&)>& done);

/// Writes the result, as JSON: program, version, format (shoal-bench-tiers), format_version (1), ranks, nodes, directory,
/// access (io::DiskAccess), direct, rows [{request_bytes, depth, write_bytes_per_s, read_bytes_per_s}].
void write_tiers_file(const std::filesystem::path& file, comm::World& world, const std::string& directory,
                      const TierBench& measured);

}  // namespace shoal::app
