// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "nccl.hpp"
#include "nccl_calls.hpp"
#include "nccl_handles.hpp"
#include "open_operations.hpp"
#include "shoal/base/error.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/device/timing.hpp"

namespace shoal::comm {

namespace {

using device::Queue;

template <typename T>
ncclDataType_t nccl_type();
template <>
ncclDataType_t nccl_type<float>() {
  return ncclFloat32;
}
template <>
ncclDataType_t nccl_type<double>() {
  return ncclFloat64;
}
template <>
ncclDataType_t nccl_type<std::int64_t>() {
  return ncclInt64;
}
template <>
ncclDataType_t nccl_type<std::uint64_t>() {
  return ncclUint64;
}

ncclRedOp_t nccl_operator(Reduce how) { return how == Reduce::sum ? ncclSum : how == Reduce::min ? ncclMin : ncclMax; }

/// What the operations of all groups share.
struct Shared {
  Shared(const MPI_Comm& ranks, double timeout_s)
      : handles(ranks, timeout_s),
        calls(
            timeout_s, [this] { handles.check_errors([this] { return calls.first(); }); },
            [this](const std::string& message) { handles.give_up(message); }) {}
  ~Shared() {
    if (!calls.none()) handles.has_unfinished();
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  NcclHandles handles;
  NcclCalls calls;
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::unique_ptr<Communicator> control, Shared& shared, const std::vector<int>& part_of,
                   int ranks_per_node)
      : control_(std::move(control)),
        shared_(shared),
        group_(shared.handles.add(control_->name(), part_of)),
        ranks_per_node_(ranks_per_node) {}

  int rank() const override { return control_->rank(); }
  int size() const override { return control_->size(); }
  const std::string& name() const override { return control_->name(); }
  bool same_node(int r) const override { return control_->same_node(r); }
  bool queued() const override { return true; }
  int queued_ranks_per_node() const override { return ranks_per_node_; }
  int next_tag() override { return control_->next_tag(); }

  Request send(Span<const std::byte> data, int to, int tag) override {
    require(!on_device({data}), "single messages between arenas may wait for each other: exchange() sends them together");
    return control_->send(data, to, tag);
  }
  Request receive(Span<std::byte> data, int from, int tag) override {
    require(!on_device({data}), "single messages between arenas may wait for each other: exchange() sends them together");
    return control_->receive(data, from, tag);
  }

  Request exchange(const std::vector<Outgoing>& outgoing, const std::vector<Incoming>& incoming, int tag) override {
    std::vector<Span<const std::byte>> memory;
    for (const Outgoing& message : outgoing) memory.push_back(message.data);
    for (const Incoming& message : incoming) memory.emplace_back(message.data);
    if (!on_device(memory)) return control_->exchange(outgoing, incoming, tag);
    std::size_t bytes = 0;
    for (const Outgoing& message : outgoing) bytes += message.data.size();
    return start("exchange", Queue::reduce, bytes,
                 [=, this](ncclComm_t comm, cudaStream_t stream) { return exchanged(outgoing, incoming, comm, stream); });
  }

  Request all_gather(Span<const std::byte> shard, Span<std::byte> all) override {
    if (!on_device({shard, all})) return control_->all_gather(shard, all);
    const auto ranks = static_cast<std::size_t>(size());
    require(all.size() == shard.size() * ranks, "all_gather of ", name(), ": ", ranks, " shards of ", shard.size(),
            " bytes into ", all.size());
    return start("all_gather", Queue::gather, shard.size(), [=, this](ncclComm_t comm, cudaStream_t stream) {
      if (group_.alone) return copied(shard, all);
      return ncclAllGather(shard.data(), all.data(), shard.size(), ncclUint8, comm, stream);
    });
  }

  Request all_gather_parts(Span<std::byte> all, const std::vector<std::size_t>& parts) override {
    if (!on_device({all})) return control_->all_gather_parts(all, parts);
    check_parts(parts, all.size());
    std::vector<Outgoing> outgoing;
    std::vector<Incoming> incoming;
    const auto own = static_cast<std::size_t>(rank());
    std::vector<Span<std::byte>> part_of_rank;
    for (std::size_t r = 0, begin = 0; r < parts.size(); begin += parts[r++]) {
      part_of_rank.push_back(all.subspan(begin, parts[r]));
    }
    for (std::size_t r = 0; r < parts.size(); ++r) {
      if (r == own) continue;
      outgoing.push_back({static_cast<int>(r), part_of_rank[own]});
      incoming.push_back({static_cast<int>(r), part_of_rank[r]});
    }
    return start("all_gather", Queue::gather, all.size(),
                 [=, this](ncclComm_t comm, cudaStream_t stream) { return exchanged(outgoing, incoming, comm, stream); });
  }

  Request reduce_scatter(Span<const std::byte> data, const std::vector<std::size_t>& parts, Span<std::byte> own) override {
    if (!on_device({data, own})) return control_->reduce_scatter(data, parts, own);
    check_parts(parts, data.size());
    require(own.size() == parts[static_cast<std::size_t>(rank())], "reduce_scatter of ", name(), ": a part of ", own.size(),
            " bytes");
    return start("reduce_scatter", Queue::reduce, data.size(), [=, this](ncclComm_t comm, cudaStream_t stream) {
      if (group_.alone) return copied(data, own);
      const bool equal = std::all_of(parts.begin(), parts.end(), [&](std::size_t part) { return part == parts.front(); });
      const std::size_t count = own.size() / sizeof(float);
      if (equal) return ncclReduceScatter(data.data(), own.data(), count, ncclFloat32, ncclSum, comm, stream);
      return grouped([&] {
        ncclResult_t result = ncclSuccess;
        for (std::size_t r = 0, begin = 0; r < parts.size() && fine(result); begin += parts[r++]) {
          if (parts[r] == 0) continue;
          result = ncclReduce(data.data() + begin, own.data(), parts[r] / sizeof(float), ncclFloat32, ncclSum,
                              static_cast<int>(r), comm, stream);
        }
        return result;
      });
    });
  }

  Request broadcast(Span<std::byte> data, int root) override {
    if (!on_device({data})) return control_->broadcast(data, root);
    return start("broadcast", Queue::gather, data.size(), [=, this](ncclComm_t comm, cudaStream_t stream) {
      if (group_.alone) return ncclSuccess;
      return ncclBroadcast(data.data(), data.data(), data.size(), ncclUint8, root, comm, stream);
    });
  }

  Request barrier() override { return control_->barrier(); }

  Request all_reduce(Span<float> data, Reduce how) override { return reduce(data, how); }
  Request all_reduce(Span<double> data, Reduce how) override { return reduce(data, how); }
  Request all_reduce(Span<std::int64_t> data, Reduce how) override { return reduce(data, how); }
  Request all_reduce(Span<std::uint64_t> data, Reduce how) override { return reduce(data, how); }

 private:
  using Call = std::function<ncclResult_t(ncclComm_t, cudaStream_t)>;

  static bool fine(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

  /// True if the memory is in arenas, false if it is the host's. Empty memory is of either kind.
  bool on_device(const std::vector<Span<const std::byte>>& memory) const {
    std::size_t held = 0, others = 0;
    for (const Span<const std::byte> span : memory) {
      if (!span.empty()) ++(device::holds(span.data()) ? held : others);
    }
    require(held == 0 || others == 0, "an operation of ", name(), " on memory of the device and of the host");
    return held > 0;
  }

  void check_parts(const std::vector<std::size_t>& parts, std::size_t bytes) const {
    std::size_t sum = 0;
    for (const std::size_t part : parts) sum += part;
    require(parts.size() == static_cast<std::size_t>(size()) && sum == bytes, parts.size(), " parts of ", sum,
            " bytes together for the ", size(), " ranks of ", name(), " and ", bytes, " bytes");
  }

  /// Within a step of another operation, the call goes to the queue of that one.
  Request start(const char* operation, Queue queue, std::size_t bytes, Call call) {
    const std::string what = text(operation, " #", ++started_, " of ", name(), ", ", bytes, " bytes");
    const auto enqueue = [this, operation, call = std::move(call), what] { run(operation, call, what); };
    const auto started = std::make_shared<NcclOperation>(operation, what, queue, enqueue);
    if (!OpenOperations::busy()) return Request(started);
    started->advance();
    return {};
  }

  void run(const char* operation, const Call& call, const std::string& what) {
    auto* const stream = static_cast<cudaStream_t>(device::stream());
    if (group_.alone) {
      call(nullptr, stream);
      return;
    }
    ncclComm_t const comm = shared_.handles.of(group_);
    require(comm != nullptr, what, ": NCCL has failed before");
    const auto described = std::make_shared<NcclOperation>("", what, Queue::compute, nullptr);
    shared_.calls.start(described, [&] {
      const device::Timed timed(operation, device::Work::collective);
      shared_.handles.settle(call(comm, stream), comm, what);
    });
  }

  static ncclResult_t copied(Span<const std::byte> from, Span<std::byte> to) {
    if (from.data() != to.data()) device::copy(from.size(), from.data(), to.data());
    return ncclSuccess;
  }

  template <typename Calls>
  static ncclResult_t grouped(const Calls& calls) {
    const ncclResult_t begun = ncclGroupStart();
    if (begun != ncclSuccess) return begun;
    const ncclResult_t called = calls();
    const ncclResult_t ended = ncclGroupEnd();
    return fine(called) ? ended : called;
  }

  static ncclResult_t exchanged(const std::vector<Outgoing>& outgoing, const std::vector<Incoming>& incoming,
                                ncclComm_t comm, cudaStream_t stream) {
    if (comm == nullptr) return ncclSuccess;  // a rank alone
    return grouped([&] {
      ncclResult_t result = ncclSuccess;
      for (const auto& [to, data] : outgoing) {
        if (!data.empty() && fine(result)) result = ncclSend(data.data(), data.size(), ncclUint8, to, comm, stream);
      }
      for (const auto& [from, data] : incoming) {
        if (!data.empty() && fine(result)) result = ncclRecv(data.data(), data.size(), ncclUint8, from, comm, stream);
      }
      return result;
    });
  }

  template <typename T>
  Request reduce(Span<T> data, Reduce how) {
    if (!on_device({bytes_of(data)})) return control_->all_reduce(data, how);
    return start("all_reduce", Queue::reduce, data.size_bytes(), [=, this](ncclComm_t comm, cudaStream_t stream) {
      if (group_.alone) return ncclSuccess;
      return ncclAllReduce(data.data(), data.data(), data.size(), nccl_type<T>(), nccl_operator(how), comm, stream);
    });
  }

  std::unique_ptr<Communicator> control_;
  Shared& shared_;
  NcclGroup& group_;
  int ranks_per_node_;
  std::uint64_t started_ = 0;
};

class ServedGroups final : public NcclGroups {
 public:
  ServedGroups(const MPI_Comm& ranks, double timeout_s) : shared_(ranks, timeout_s) {}
  std::unique_ptr<Communicator> over(std::unique_ptr<Communicator> control, const std::vector<int>& part_of,
                                     int ranks_per_node) override {
    return std::make_unique<NcclCommunicator>(std::move(control), shared_, part_of, ranks_per_node);
  }

 private:
  Shared shared_;
};

}  // namespace

bool has_nccl() { return true; }

std::unique_ptr<NcclGroups> make_nccl_groups(const MPI_Comm& ranks, double timeout_s) {
  return std::make_unique<ServedGroups>(ranks, timeout_s);
}

}  // namespace shoal::comm
