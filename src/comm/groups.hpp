// SPDX-License-Identifier: Apache-2.0
// The groups of ranks, from the options and where the launcher put the ranks.
#pragma once

#include <mpi.h>

#include <memory>
#include <string>
#include <vector>

#include "shoal/comm/communicator.hpp"
#include "shoal/comm/world.hpp"

namespace shoal::comm {

struct Groups {
  /// Collective over MPI_COMM_WORLD. Also chooses how ranks wait.
  explicit Groups(const CommOptions& options);
  ~Groups();
  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;
  /// Makes in_step and between, of so many neighbouring ranks: a divisor of their number. Collective over all.
  void divide(int ranks_in_step);

  MPI_Comm ordered = MPI_COMM_NULL;  ///< the world's ranks, node by node
  MPI_Comm inquiry = MPI_COMM_NULL;  ///< the same for questions between waiting ranks, which come at any time
  std::unique_ptr<Communicator> all, node, across, in_step, between;
  std::vector<int> node_of;  ///< by rank of all
  std::vector<std::string> hosts;

 private:
  void place(const CommOptions& options);
  void check_agreement(const CommOptions& options) const;
};

}  // namespace shoal::comm
