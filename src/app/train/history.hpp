// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/checkpoint/progress.hpp"
#include "app/train/made_steps.hpp"
#include "shoal/comm/communicator.hpp"
#include "shoal/device/tier.hpp"
#include "shoal/io/lineage.hpp"

namespace shoal::app {

/// The events and results of a run, for summary.json and the end of the log.
struct History {
  explicit History(bool is_rank_0) : steps(is_rank_0) {}

  MadeSteps steps;
  std::vector<std::pair<std::int64_t, double>> validation;
  std::optional<LossAt> best;                    ///< with checkpoint.keep_best: the evaluation whose checkpoint is kept
  std::map<std::string, comm::Traffic> traffic;  ///< this rank's, of the steps without evaluations and checkpoints
  std::uint64_t device_waits = 0;                ///< how often the host waited for the device in those steps
  device::TierTraffic nvme;                      ///< likewise, of the tier on a disk
  std::string stopped_by;                        ///< reason for stopping before the last step; empty: none
  io::Lineage lineage;                           ///< of the run
  std::filesystem::path resumed_from;            ///< the checkpoint; empty: the run began at step 0
  bool updated_before = false;                   ///< an update was applied before that checkpoint
};

}  // namespace shoal::app
