// SPDX-License-Identifier: Apache-2.0
// The scripts of jobscripts/, filled in for one job.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/base/names.hpp"
#include "shoal/device/kind.hpp"
#include "shoal/io/target.hpp"

namespace shoal::app {

/// Batch systems.
enum class System : std::uint8_t { slurm, pbs };
inline constexpr std::array system_names = {Named{System::slurm, "slurm"}, Named{System::pbs, "pbs"}};
constexpr const auto& table_of(System) { return system_names; }

/// What a script asks for.
struct Job {
  std::uint64_t nodes = 1, ranks_per_node = 1, cores_per_rank = 1, seconds = 3600;
  std::uint64_t rank_bytes = 0;                ///< planned, of the host's memory
  std::optional<std::uint64_t> text_bytes;     ///< of the text that a rank keeps; nothing if that is not known
  std::string program, deck;                   ///< absolute paths
  std::vector<std::string> options;            ///< "--section.name=value"
  std::string out;                             ///< output.dir, an absolute path; empty: a directory named after the job
  device::DeviceKind device = device::kind();  ///< on GPUs the job asks for one for each rank

  std::uint64_t ranks() const { return nodes * ranks_per_node; }
  bool on_gpus() const { return device == device::DeviceKind::cuda; }
};

/// What a rank plans of the host's memory, which batch systems count: on GPUs only staging memory.
std::uint64_t host_bytes(const Ledger& planned, device::DeviceKind kind);

std::string script_of(const Job& job, System system);
/// Recognizes a script that script_of() wrote.
io::OwnKind own_job_script();

}  // namespace shoal::app
