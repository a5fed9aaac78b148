// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "shoal/base/names.hpp"

namespace shoal::sync {

/// sync.kind: when nodes synchronize their parameters. The ranks of a node reduce gradients at every step, whatever the
/// kind.
enum class SyncKind : std::uint8_t { every_step, localsgd, slowmo, sgp, diloco };
struct SyncTraits {
  bool average = false;  ///< nodes average their parameters every localsgd_frequency steps
  bool push = false;     ///< nodes exchange parameters with one neighbour at every step
  bool outer = false;    ///< an outer update with momentum, every slowmo_frequency steps
};
struct SyncRow {
  SyncKind value;
  const char* name;
  SyncTraits does;
};
inline constexpr std::array sync_kinds = {
    SyncRow{SyncKind::every_step, "every_step", {}},
    SyncRow{SyncKind::localsgd, "localsgd", {.average = true}},
    SyncRow{SyncKind::slowmo, "slowmo", {.average = true, .push = true, .outer = true}},  // average or push: slowmo_base
    SyncRow{SyncKind::sgp, "sgp", {.push = true}},
    SyncRow{SyncKind::diloco, "diloco", {.outer = true}},
};
constexpr const auto& table_of(SyncKind) { return sync_kinds; }

/// sync.average_dtype: in which form averages are sent.
enum class AverageType : std::uint8_t { fp32, bf16, int8 };
inline constexpr std::array average_type_names = {Named{AverageType::fp32, "fp32"}, Named{AverageType::bf16, "bf16"},
                                                  Named{AverageType::int8, "int8"}};
constexpr const auto& table_of(AverageType) { return average_type_names; }

struct SyncOptions {
  SyncKind kind = SyncKind::every_step;
  std::size_t localsgd_frequency = 3;         ///< steps between averages (localsgd; slowmo over it)
  std::size_t slowmo_frequency = 48;          ///< steps between outer updates (slowmo, diloco)
  double slowmo_momentum = 0.5;               ///< of the outer update
  double slowmo_lr = 1.0;                     ///< rate of the outer update
  SyncKind slowmo_base = SyncKind::localsgd;  ///< what the nodes do between outer updates: localsgd or sgp
  /// Means are sent as they are (fp32), or as differences from the last mean (bf16, int8).
  AverageType average_dtype = AverageType::fp32;
  bool average_overlap = false;         ///< means are sent during the next steps
  std::size_t average_delay = 1;        ///< steps after which such a mean is applied
  bool slowmo_memory_efficient = true;  ///< the outer update's state is sharded over all ranks
  bool sgp_overlap = false;             ///< exchanges with neighbours run during the next step
  /// First steps in which nodes sum their gradients; they train locally after these (post-local SGD: Lin et al. 2020, arXiv
  /// 1808.07217).
  std::size_t warmup_steps = 0;
  int nprocs_per_node = 0;  ///< consecutive ranks that count as a node; 0: those of the machine's node
};

/// Returns true if nodes train locally between synchronizations, so that their parameters may differ.
inline bool trains_locally(const SyncOptions& options) { return options.kind != SyncKind::every_step; }
/// Returns true if neighbours in a graph of the nodes exchange parameters at every step (stochastic gradient push).
inline bool pushes(const SyncOptions& options) {
  const SyncTraits does = row_of(options.kind).does;
  return does.push && (!does.average || options.slowmo_base == SyncKind::sgp);
}

}  // namespace shoal::sync
