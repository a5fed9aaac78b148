// SPDX-License-Identifier: Apache-2.0
// The section [study] of a study's deck: which points it has. All of it is read here, before any point is made.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "shoal/base/names.hpp"
#include "shoal/config/options.hpp"

namespace shoal::app {

/// What starts the runs of a study: mpiexec on this machine, one run after another, or a batch system.
enum class Launcher : std::uint8_t { local, slurm, pbs };
inline constexpr std::array launcher_names = {Named{Launcher::local, "local"}, Named{Launcher::slurm, "slurm"},
                                              Named{Launcher::pbs, "pbs"}};
constexpr const auto& table_of(Launcher) { return launcher_names; }

/// Strong scaling: all points have the deck's batch.global. Weak: the batch of a rank stays the same.
enum class Scaling : std::uint8_t { strong, weak };
inline constexpr std::array scaling_names = {Named{Scaling::strong, "strong"}, Named{Scaling::weak, "weak"}};
constexpr const auto& table_of(Scaling) { return scaling_names; }

enum class MicroBatch : std::uint8_t {
  fixed,   ///< the deck's batch.micro
  largest  ///< the largest that fits into the memory of a rank
};
inline constexpr std::array micro_batch_names = {Named{MicroBatch::fixed, "fixed"}, Named{MicroBatch::largest, "largest"}};
constexpr const auto& table_of(MicroBatch) { return micro_batch_names; }

struct StudyGrid {
  int nodes = 1, ranks_per_node = 1;
  int ranks() const { return nodes * ranks_per_node; }
  bool operator==(const StudyGrid&) const = default;
};

/// "stage 3 activation.checkpoint_interval=1": a strategy of `shoal plan`, and options on top of it.
struct StudyStrategy {
  std::string text;  ///< as written
  std::string name;  ///< "stage 3"; "deck" if there are only options
  std::vector<std::pair<std::string, std::string>> options;
};

struct StudyRequest {
  Launcher launcher = Launcher::local;
  std::vector<StudyGrid> grids;  ///< in the order of the list
  std::vector<StudyStrategy> strategies;
  std::vector<Scaling> scalings;
  MicroBatch micro = MicroBatch::fixed;
  int repeats = 1;
  std::uint64_t cores_per_rank = 1, seconds = 3600;  ///< of a job
  std::string network;                               ///< a result of `shoal bench comm`; empty: no step times are predicted
};

/// The options of [study], which may also be given on the command line.
std::vector<config::CommandSpec::Own> study_options();

/// bad_input() with the place of the option that cannot be read.
StudyRequest study_request(const config::Invocation& invocation);

}  // namespace shoal::app
