// SPDX-License-Identifier: Apache-2.0
// All groups that NCCL serves, and what they share.
#include <utility>

#include "nccl.hpp"
#include "nccl_communicator.hpp"

namespace shoal::comm {

NcclShared::NcclShared(const MPI_Comm& ranks, double timeout_s)
    : handles(ranks, timeout_s),
      calls(
          timeout_s, [this] { handles.check_errors([this] { return calls.first(); }); },
          [this](const std::string& message) { handles.give_up(message); }) {}

NcclShared::~NcclShared() {
  if (!calls.none()) handles.has_unfinished();
}

namespace {

class ServedGroups final : public NcclGroups {
 public:
  ServedGroups(const MPI_Comm& ranks, double timeout_s) : shared_(ranks, timeout_s) {}
  std::unique_ptr<Communicator> over(std::unique_ptr<Communicator> control, const std::vector<int>& part_of,
                                     int ranks_per_node) override {
    return std::make_unique<NcclCommunicator>(std::move(control), shared_, part_of, ranks_per_node);
  }

 private:
  NcclShared shared_;
};

}  // namespace

bool has_nccl() { return true; }

std::unique_ptr<NcclGroups> make_nccl_groups(const MPI_Comm& ranks, double timeout_s) {
  return std::make_unique<ServedGroups>(ranks, timeout_s);
}

}  // namespace shoal::comm
