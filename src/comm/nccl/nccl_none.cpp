// SPDX-License-Identifier: Apache-2.0
// For programs without NCCL.
#include "comm/nccl/nccl.hpp"
#include "shoal/base/error.hpp"

namespace shoal::comm {

bool has_nccl() { return false; }
std::string nccl_version() { return {}; }

std::unique_ptr<NcclGroups> make_nccl_groups(const MPI_Comm& /*ranks*/, const CommOptions& /*options*/) {
  fail("this program was built without NCCL");
}

}  // namespace shoal::comm
