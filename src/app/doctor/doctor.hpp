// SPDX-License-Identifier: Apache-2.0
// What `shoal doctor` checks. A new check is a function here and a row in the table of doctor.cpp.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "shoal/base/names.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/config/options.hpp"

namespace shoal::app::doctor {

enum class Grade : std::uint8_t { ok, warn, fail };
inline constexpr std::array grade_names = {Named{Grade::ok, "ok"}, Named{Grade::warn, "warn"}, Named{Grade::fail, "fail"}};
constexpr const auto& table_of(Grade) { return grade_names; }

/// The result of a check. Rank 0's is printed.
struct Finding {
  Grade grade = Grade::ok;
  std::string found;                     ///< what was measured, for people
  std::string advice;                    ///< what to change; empty if nothing
  std::map<std::string, double> values;  ///< the same for programs, in seconds and bytes

  /// Makes it worse, never better, and adds to the advice.
  void worse(Grade to, const std::string& what_to_change);
};

/// What the checks look at.
struct Subject {
  comm::World& world;
  const config::Options& options;
  std::filesystem::path directory;  ///< where checkpoints would be written
  double limit_s = 0;               ///< time for the check that runs; one that measures stops then, with what it has
};

// All are collective, and use memory of the host alone.
Finding check_ranks(Subject& subject);        ///< ranks, nodes, hosts
Finding check_cores(Subject& subject);        ///< binding; ranks that share cores
Finding check_threads(Subject& subject);      ///< threads of a rank; memory domains
Finding check_inner_links(Subject& subject);  ///< messages within nodes
Finding check_outer_links(Subject& subject);  ///< messages between nodes
Finding check_clocks(Subject& subject);       ///< clocks of nodes
Finding check_memory(Subject& subject);       ///< free memory and limits
Finding check_disk(Subject& subject);         ///< each rank writes by itself
Finding check_mpi_io(Subject& subject);       ///< all write through MPI-IO
Finding check_locks(Subject& subject);        ///< files that only one process may create or lock
Finding check_hdf5(Subject& subject);         ///< version, and whether it is parallel
Finding check_device(Subject& subject);       ///< GPUs, and libraries that send their memory

/// The first problem of any rank as "rank R (HOST): PROBLEM"; empty if there is none. Collective.
std::string first_problem(comm::World& world, const std::string& mine);
/// Every rank's number, by rank. Collective.
std::vector<double> gather(comm::World& world, double mine);

double seconds_since(std::chrono::steady_clock::time_point begin);
/// In MB/s.
std::string rate_text(double bytes_per_s);

}  // namespace shoal::app::doctor
