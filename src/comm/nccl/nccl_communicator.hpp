// SPDX-License-Identifier: Apache-2.0
// A group whose operations on arenas are carried out by NCCL, and those on memory of the host by another communicator.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/nccl/nccl_calls.hpp"
#include "comm/nccl/nccl_handles.hpp"
#include "shoal/comm/communicator.hpp"
#include "shoal/comm/options.hpp"

namespace shoal::comm {

/// What the operations of all groups share.
struct NcclShared {
  NcclShared(const MPI_Comm& ranks, const CommOptions& options);
  ~NcclShared();
  NcclShared(const NcclShared&) = delete;
  NcclShared& operator=(const NcclShared&) = delete;
  NcclHandles handles;
  NcclCalls calls;
  bool gathers_apart;
};

class NcclCommunicator final : public Communicator {
 public:
  /// As NcclGroups::over() says. shared must outlive this.
  NcclCommunicator(std::unique_ptr<Communicator> control, NcclShared& shared, const std::vector<int>& part_of,
                   int ranks_per_node);

  int rank() const override { return control_->rank(); }
  int size() const override { return control_->size(); }
  const std::string& name() const override { return control_->name(); }
  bool same_node(int r) const override { return control_->same_node(r); }
  bool queued() const override { return true; }
  int queued_ranks_per_node() const override { return ranks_per_node_; }
  bool gathers_apart() const override { return shared_.gathers_apart; }
  void prepare(device::Queue queue) override { shared_.handles.prepare(group_on(queue)); }
  int next_tag() override { return control_->next_tag(); }

  Request send(Span<const std::byte> data, int to, int tag) override;
  Request receive(Span<std::byte> data, int from, int tag) override;
  Request exchange(const std::vector<Outgoing>& outgoing, const std::vector<Incoming>& incoming, int tag) override;
  Request all_gather(Span<const std::byte> shard, Span<std::byte> all) override;
  Request all_gather_parts(Span<std::byte> all, const std::vector<std::size_t>& parts) override;
  Request reduce_scatter(Span<const std::byte> data, const std::vector<std::size_t>& parts, Span<std::byte> own) override;
  Request broadcast(Span<std::byte> data, int root) override;
  Request barrier() override { return control_->barrier(); }
  Request all_reduce(Span<float> data, Reduce how) override { return reduce(data, how); }
  Request all_reduce(Span<double> data, Reduce how) override { return reduce(data, how); }
  Request all_reduce(Span<std::int64_t> data, Reduce how) override { return reduce(data, how); }
  Request all_reduce(Span<std::uint64_t> data, Reduce how) override { return reduce(data, how); }

 private:
  using Call = std::function<ncclResult_t(ncclComm_t, cudaStream_t)>;

  template <typename T>
  Request reduce(Span<T> data, Reduce how);
  bool on_device(const std::vector<Span<const std::byte>>& memory) const;
  void check_parts(const std::vector<std::size_t>& parts, std::size_t bytes) const;
  NcclGroup& group_on(device::Queue queue) { return queue == device::Queue::gather ? gathers_ : group_; }
  Request enqueue(const char* operation, device::Queue queue, std::size_t bytes, Call call);
  void run(NcclGroup& group, const char* operation, const Call& call, const std::string& what);

  std::unique_ptr<Communicator> control_;
  NcclShared& shared_;
  NcclGroup& group_;
  NcclGroup& gathers_;  // the same, unless gathers are apart
  int ranks_per_node_;
  std::uint64_t started_ = 0;
};

}  // namespace shoal::comm
