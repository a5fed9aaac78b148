// SPDX-License-Identifier: Apache-2.0
// Causes the faults that fault.kind asks for.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "shoal/config/faults.hpp"

namespace shoal::app {

/// "hang in step 3 on rank 1, caused on purpose (fault.kind)", for the banner; empty if the run causes none.
std::string describe_faults(const config::FaultOptions& options);

class Faults {
 public:
  /// resumed: the run goes on from a checkpoint. It causes no faults then: a job that is requeued after a fault would
  /// otherwise never end.
  Faults(const config::Options& options, int rank, bool resumed);

  /// To be called when a step (from 1) begins. It may not return, or return late.
  void begin_step(std::size_t step);
  /// To be called on rank 0 when the checkpoint of a step is complete, on any thread.
  void wrote(const std::filesystem::path& file, std::size_t step);

 private:
  std::vector<config::Fault> left_;      // of this rank, but for the next
  std::vector<config::Fault> corrupts_;  // of checkpoints
  double timeout_s_;
};

}  // namespace shoal::app
