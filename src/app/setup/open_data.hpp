// SPDX-License-Identifier: Apache-2.0
// Opens the data of a run on all ranks, or, for a plan, on one.
#pragma once

#include "shoal/comm/communicator.hpp"
#include "shoal/config/options.hpp"
#include "shoal/data/tokens.hpp"

namespace shoal::app {

/// Collective. Rank 0 finds the files, checks tokens files, reads text, and sends what it found. Each rank then opens tokens
/// files to read its own samples. Rank 0 and not the first rank of each node, since the data lie where the checkpoints do:
/// in a file system that all nodes share; exact copies on the disks of nodes are read just as well. An error on any rank is
/// thrown on all.
data::Dataset open_data(comm::Communicator& group, const config::Options& options);

/// For commands that need no data but their vocabulary, on one rank: sets model.vocab_size to that of the data if it is 0.
void set_vocab_size(config::Options& options);

}  // namespace shoal::app
