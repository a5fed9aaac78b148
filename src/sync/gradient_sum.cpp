// SPDX-License-Identifier: Apache-2.0
#include "shoal/sync/gradient_sum.hpp"

namespace shoal::sync {

GradientSum::GradientSum(const SubShards& sub_shards, const NodeGroups& groups, DType type, Memory& memory)
    : sub_shards_(&sub_shards), groups_(groups), type_(type) {
  const std::size_t bytes = comm::tree_scratch_bytes(groups.across.ranks, sub_shards.shard_elements() * size_of(type));
  scratch_ = memory.take<std::byte>(Kind::buffers, bytes, "messages between nodes", Use::messages);
}

void GradientSum::run(const Gradient& gradient) {
  comm::Communicator& group = *groups_.across.group;
  const comm::Blocks blocks = sub_shards_->blocks_across({0, sub_shards_->units()}, gradient);
  comm::tree_reduce_scatter(group, blocks, type_, scratch_).wait();
  comm::tree_all_gather(group, blocks, scratch_).wait();
}

}  // namespace shoal::sync
