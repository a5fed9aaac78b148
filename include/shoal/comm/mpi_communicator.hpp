// SPDX-License-Identifier: Apache-2.0
// The MPI backend, behind an interface that needs no mpi.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shoal/comm/communicator.hpp"

namespace shoal::comm {

/// A group of the ranks of an MPI communicator (an MPI_Comm* behind a void*), which is duplicated: collective. Nothing in it
/// blocks. same_node: by rank. MPI counts with int, so data is cut in messages of `largest_message` bytes.
std::unique_ptr<Communicator> make_mpi_communicator(const void* mpi_communicator, std::string name,
                                                    std::vector<bool> same_node,
                                                    std::size_t largest_message = std::size_t{1} << 30U);

}  // namespace shoal::comm
