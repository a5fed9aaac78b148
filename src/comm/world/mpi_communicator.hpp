// SPDX-License-Identifier: Apache-2.0
// The MPI implementation of Communicator. This header does not need mpi.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shoal/comm/communicator.hpp"
#include "shoal/comm/options.hpp"

namespace shoal::comm {

/// Collective. Makes a group of the ranks of an MPI communicator (an MPI_Comm*, passed as void*), which is duplicated. Its
/// operations do not block. same_node: by rank. MPI counts with int, so data are cut into messages of at most
/// `largest_message` bytes.
std::unique_ptr<Communicator> make_mpi_communicator(const void* mpi_communicator, std::string name,
                                                    std::vector<bool> same_node,
                                                    std::size_t largest_message = largest_native_bytes);

}  // namespace shoal::comm
