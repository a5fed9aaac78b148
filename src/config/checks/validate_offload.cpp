// SPDX-License-Identifier: Apache-2.0
// Contradictions between options of tiers, and options that cannot be combined with them.
#include "config/checks/validate.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/names.hpp"
#include "shoal/config/table.hpp"

namespace shoal::config {

namespace {

/// NVMe needs a directory.
void find_directory_problems(const Options& o, std::vector<std::string>& problems) {
  if (!o.nvme.dir.empty()) return;
  for (const char* const name : {"offload.optimizer", "offload.params"}) {
    if (value_text(*find(name), o) != name_of(Where::nvme)) continue;
    problems.push_back(text(name, " = nvme needs a directory on a local disk in nvme.dir (nvme_path in a DeepSpeed ",
                            "configuration), but it is empty"));
  }
}

/// "offload.optimizer = nvme", or the one of parameters; empty: nothing is on a disk.
std::string on_disk(const Options& o) {
  if (o.offload.optimizer == Where::nvme) return "offload.optimizer = nvme";
  return o.offload.params == Where::nvme ? "offload.params = nvme" : "";
}

void find_checkpoint_problems(const Options& o, std::vector<std::string>& problems) {
  const std::string asked = on_disk(o);
  if (asked.empty()) return;
  if (o.checkpoint.async) {
    problems.push_back(text("checkpoint.async = true cannot be combined with ", asked,
                            ": it keeps a copy of all states in memory, which nvme is to save; allowed: false"));
  }
  if (o.checkpoint.io == io::IoMode::collective) {
    problems.push_back(text("checkpoint.io = collective cannot be combined with ", asked,
                            ": MPI-IO writes from memory, and states on a disk pass through memory piece by piece; allowed: "
                            "auto, independent"));
  }
}

void find_params_problems(const Options& o, std::vector<std::string>& problems) {
  if (o.offload.params == Where::device) return;
  const std::string asked = text("offload.params = ", name_of(o.offload.params), " cannot be combined with ");
  if (o.zero.hpz_size != 0) {
    problems.push_back(text(asked, "zero.hpz_size = ", value_text(*find("zero.hpz_size"), o),
                            ": the second partition is a copy of the parameters on the device, which offload.params is to "
                            "save; allowed: off"));
  }
  if (sync::trains_locally(o.sync)) {
    problems.push_back(text(asked, "sync.kind = ", name_of(o.sync.kind),
                            ": nodes that train locally read all parameters when they synchronize; allowed: every_step"));
  }
  if (o.model.has_copied_embedding() && o.pipeline.size == 1) {
    problems.push_back(text(asked,
                            "model.tied_gradient = apart: the head's copy of the embedding would have to be renewed in "
                            "the tier after every update; allowed: joined"));
  }
}

}  // namespace

std::vector<std::string> offload_problems(const Options& o) {
  std::vector<std::string> problems;
  find_directory_problems(o, problems);
  find_checkpoint_problems(o, problems);
  find_params_problems(o, problems);
  if (o.offload.optimizer == Where::device) return problems;
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
