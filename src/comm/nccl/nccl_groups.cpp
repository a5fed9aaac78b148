// SPDX-License-Identifier: Apache-2.0
// All groups that NCCL serves, and what they share.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "comm/nccl/nccl.hpp"
#include "comm/nccl/nccl_communicator.hpp"
#include "comm/nccl/nccl_living.hpp"
#include "shoal/base/error.hpp"

namespace shoal::comm {

NcclShared::NcclShared(const MPI_Comm& ranks, const CommOptions& options)
    : handles(ranks, options.timeout, [this] { return calls.groups(); }),
      calls(
          options.timeout, keeps_order_of_launches(), [this] { handles.check_errors([this] { return calls.first(); }); },
          [this](const std::string& message) { handles.give_up(message); }),
      gathers_apart(options.gather_group) {}

NcclShared::~NcclShared() {
  if (!calls.none()) handles.has_unfinished();
}

namespace {

class ServedGroups final : public NcclGroups {
 public:
  ServedGroups(const MPI_Comm& ranks, const CommOptions& options) : shared_(ranks, options) {}
  std::unique_ptr<Communicator> over(std::unique_ptr<Communicator> control, const std::vector<int>& part_of,
                                     int ranks_per_node) override {
    return std::make_unique<NcclCommunicator>(std::move(control), shared_, part_of, ranks_per_node);
  }

 private:
  NcclShared shared_;
};

}  // namespace

bool has_nccl() { return true; }

/// setenv() is safe here, as in NcclHandles.
std::unique_ptr<NcclGroups> make_nccl_groups(const MPI_Comm& ranks, const CommOptions& options) {
  const bool native = options.collectives == Collectives::native;
  if (native) require(setenv("NCCL_RUNTIME_CONNECT", "0", 0) == 0, "setenv: ", std::strerror(errno));
  return std::make_unique<ServedGroups>(ranks, options);
}

}  // namespace shoal::comm
