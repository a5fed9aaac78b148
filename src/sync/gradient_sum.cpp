// SPDX-License-Identifier: Apache-2.0
#include "shoal/sync/gradient_sum.hpp"

namespace shoal::sync {

GradientSum::GradientSum(const Shares& shares, const Placement& placement, DType type, Memory& memory)
    : shares_(&shares), placement_(placement), type_(type) {
  const std::size_t bytes = comm::tree_scratch_bytes(placement.across.ranks, shares.shard_elements() * size_of(type));
  scratch_ = memory.take<std::byte>(Kind::buffers, bytes, "messages between nodes");
}

void GradientSum::run(const Gradient& gradient) {
  comm::Communicator& group = *placement_.across.group;
  const comm::Blocks blocks = shares_->blocks_across({0, shares_->units()}, gradient);
  comm::tree_reduce_scatter(group, blocks, type_, scratch_).wait();
  comm::tree_all_gather(group, blocks, scratch_).wait();
}

}  // namespace shoal::sync
