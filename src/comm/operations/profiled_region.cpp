// SPDX-License-Identifier: Apache-2.0
#include "shoal/comm/profiled_region.hpp"

#include <mpi.h>

namespace shoal::comm {

ProfiledRegion::ProfiledRegion(const char* name) : name_(name) { MPI_Pcontrol(1, name_); }
ProfiledRegion::~ProfiledRegion() { MPI_Pcontrol(-1, name_); }

}  // namespace shoal::comm
