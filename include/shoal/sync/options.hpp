// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace shoal::sync {

/// When nodes agree on parameters. The ranks of a node share gradients at every step, whatever the kind.
struct SyncOptions {
  std::string kind = "every_step";       ///< every_step, localsgd, slowmo, sgp, diloco
  std::size_t localsgd_frequency = 3;    ///< steps between averages (localsgd; slowmo over it)
  std::size_t slowmo_frequency = 48;     ///< steps between outer updates (slowmo, diloco)
  double slowmo_momentum = 0.5;          ///< of the outer update
  double slowmo_lr = 1.0;                ///< rate of the outer update
  std::string slowmo_base = "localsgd";  ///< what the nodes do between outer updates: localsgd, sgp
  std::string average_dtype = "fp32";  ///< means are sent in it: fp32; bf16, int8: differences from what nodes had in common
  bool average_overlap = false;        ///< a mean is sent during the next steps
  std::size_t average_delay = 1;       ///< and arrives after so many of them
  bool slowmo_memory_efficient = true;  ///< the outer update's state is shared out over all ranks
  bool sgp_overlap = false;             ///< an exchange goes on during the next step
  /// In the first so many steps nodes share gradients, too; all else begins after them (post-local SGD: Lin et al. 2020,
  /// arXiv 1808.07217).
  std::size_t warmup_steps = 0;
  int nprocs_per_node = 0;  ///< neighbouring ranks that make a node here; 0: those of the machine's node
};

/// Whether nodes ever differ.
inline bool trains_locally(const SyncOptions& options) { return options.kind != "every_step"; }
/// Whether neighbours in a graph exchange parameters at every step (stochastic gradient push).
inline bool pushes(const SyncOptions& options) {
  return options.kind == "sgp" || (options.kind == "slowmo" && options.slowmo_base == "sgp");
}

}  // namespace shoal::sync
