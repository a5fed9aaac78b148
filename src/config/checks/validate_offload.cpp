// SPDX-License-Identifier: Apache-2.0
// Contradictions between options of tiers, and options that cannot be combined with them.
#include "config/checks/validate.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/names.hpp"
#include "shoal/config/table.hpp"

namespace shoal::config {

namespace {

/// NVMe needs a directory. That of parameters is checked although it is not built.
void find_directory_problems(const Options& o, std::vector<std::string>& problems) {
  if (!o.nvme.dir.empty()) return;
  for (const char* const name : {"offload.optimizer", "offload.params"}) {
    if (value_text(*find(name), o) != name_of(Where::nvme)) continue;
    problems.push_back(text(name, " = nvme needs a directory on a local disk in nvme.dir (nvme_path in a DeepSpeed ",
                            "configuration), but it is empty"));
  }
}

void find_checkpoint_problems(const Options& o, std::vector<std::string>& problems) {
  if (o.offload.optimizer != Where::nvme) return;
  if (o.checkpoint.async) {
    problems.emplace_back(
        "checkpoint.async = true cannot be combined with offload.optimizer = nvme: it keeps a copy of all states in memory, "
        "which nvme is to save; allowed: false");
  }
  if (o.checkpoint.io == io::IoMode::collective) {
    problems.emplace_back(
        "checkpoint.io = collective cannot be combined with offload.optimizer = nvme: MPI-IO writes from memory, and states "
        "on a disk pass through memory piece by piece; allowed: auto, independent");
  }
}

}  // namespace

std::vector<std::string> offload_problems(const Options& o) {
  std::vector<std::string> problems;
  find_directory_problems(o, problems);
  if (o.offload.optimizer == Where::device) return problems;
  find_checkpoint_problems(o, problems);
  const std::string asked = text("offload.optimizer = ", name_of(o.offload.optimizer), " cannot be combined with ");
  if (sync::trains_locally(o.sync)) {
    problems.push_back(text(asked, "sync.kind = ", name_of(o.sync.kind),
                            ": nodes that train locally read all master parameters when they synchronize; allowed: "
                            "every_step"));
  }
  if (o.adascale.on) {
    problems.push_back(text(asked, "optimizer.adascale = true: it reads second moments before every step; allowed: false"));
  }
  return problems;
}

}  // namespace shoal::config
