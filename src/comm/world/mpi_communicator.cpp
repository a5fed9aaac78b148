// SPDX-License-Identifier: Apache-2.0
// Non-blocking MPI with every return code checked, for data of any size.
#include "comm/world/mpi_communicator.hpp"

#include <mpi.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "comm/operations/duplicate.hpp"
#include "comm/operations/mpi_error.hpp"
#include "shoal/base/error.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/device/queue.hpp"

namespace shoal::comm {

namespace {

using device::Access;
using device::Calls;

constexpr int first_composite_tag = end_of_message_tags;
/// Composite operations use tags below this if the library has them, otherwise as many as it has. Each operation in flight
/// has its own, but the more there are, the longer a tag in a report names one operation alone.
constexpr int most_tags = 1 << 20;
/// The MPI standard promises no more (MPI 3.1, section 8.1.2). Intel MPI, for example, has 2^19 on some networks.
constexpr int fewest_tags = 1 << 15;
static_assert(first_composite_tag < fewest_tags);

int end_of_tags(MPI_Comm communicator) {
  const int* largest = nullptr;
  int known = 0;
  check(MPI_Comm_get_attr(communicator, MPI_TAG_UB, static_cast<void*>(&largest), &known), "MPI_Comm_get_attr");
  return known != 0 ? std::min(*largest, most_tags - 1) + 1 : fewest_tags;
}

/// The MPI requests of one operation.
///
/// [Note: clear-to-send before data] Testing one request lets the library advance all of its messages. Over TCP a large
/// message uses a rendezvous: the sender waits for the receiver's clear-to-send, and requests, clear-to-sends and data
/// follow each other on one stream. Suppose a rank tests between posting two messages, and its partner has already sent the
/// clear-to-send for the first. Then its data go out before this rank has posted the rest and sent its own clear-to-sends,
/// so the partner cannot send: the two directions of the link are used one after the other. So an operation is not tested
/// when it has just been posted, and an exchange posts what it sends before what it receives: then a rank learns what its
/// partner wants to send before it may send itself.
class MpiOperation : public Operation {
 public:
  MpiOperation(const char* name, std::uint64_t number, const std::string& group, std::size_t bytes, Calls calls)
      : name_(name), number_(number), group_(group), bytes_(bytes), calls_(calls) {}

  bool advance() override {
    if (std::exchange(just_posted_, false)) return false;
    int complete = 0;
    check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &complete, MPI_STATUSES_IGNORE), "MPI_Testall");
    if (complete == 0) return false;
    for (const Span<std::byte> memory : received_) device::received(memory, calls_);
    return true;
  }
  std::string_view name() const override { return name_; }
  std::string describe() const override { return text(name_, " #", number_, " of ", group_, ", ", bytes_, " bytes"); }

  MPI_Request& next() { return requests_.emplace_back(MPI_REQUEST_NULL); }
  /// Where the library writes this memory. When the operation is complete, the device has what was written.
  std::byte* receives(Span<std::byte> memory) {
    received_.push_back(memory);
    return device::for_messages(memory, Access::write, calls_);
  }

 protected:
  std::optional<device::Queue> queue() const override { return std::nullopt; }

 private:
  const char* name_;
  std::uint64_t number_;
  const std::string& group_;  // the communicator outlives its operations
  std::size_t bytes_;
  Calls calls_;
  bool just_posted_ = true;
  std::vector<MPI_Request> requests_;
  std::vector<Span<std::byte>> received_;
};

/// Owns the counts and displacements, which the library reads until the operation is complete.
struct PartsOperation final : MpiOperation {
  PartsOperation(const char* name, std::uint64_t number, const std::string& group, std::size_t bytes, std::vector<int> parts)
      : MpiOperation(name, number, group, bytes, Calls::collectives),
        counts(std::move(parts)),
        displacements(counts.size(), 0) {
    std::partial_sum(counts.begin(), counts.end() - 1, displacements.begin() + 1);
  }
  std::vector<int> counts, displacements;
};

template <typename T>
MPI_Datatype mpi_type();
template <>
MPI_Datatype mpi_type<float>() {
  return MPI_FLOAT;
}
template <>
MPI_Datatype mpi_type<double>() {
  return MPI_DOUBLE;
}
template <>
MPI_Datatype mpi_type<std::int64_t>() {
  return MPI_INT64_T;
}
template <>
MPI_Datatype mpi_type<std::uint64_t>() {
  return MPI_UINT64_T;
}

MPI_Op mpi_operator(Reduce how) { return how == Reduce::sum ? MPI_SUM : how == Reduce::min ? MPI_MIN : MPI_MAX; }

class MpiCommunicator : public Communicator {
 public:
  MpiCommunicator(MPI_Comm original, std::string name, std::vector<bool> same_node, std::size_t largest_message)
      : communicator_(duplicate(original)),
        name_(std::move(name)),
        same_node_(std::move(same_node)),
        largest_message_(largest_message),
        end_of_tags_(end_of_tags(communicator_)) {
    check(MPI_Comm_rank(communicator_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(communicator_, &size_), "MPI_Comm_size");
    require(same_node_.size() == static_cast<std::size_t>(size_), "group ", name_, " has ", size_, " ranks, not ",
            same_node_.size());
  }
  ~MpiCommunicator() override { MPI_Comm_free(&communicator_); }  // an error here would have no effect
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const std::string& name() const override { return name_; }
  bool same_node(int r) const override { return same_node_[static_cast<std::size_t>(r)]; }

  Request send(Span<const std::byte> data, int to, int tag) override {
    check_tag(tag);
    const std::byte* const from = device::for_messages(data, Access::read, Calls::messages);
    return cut("send", Calls::messages, data.size(), {}, 1,
               [&](std::byte*, std::size_t begin, int count, MPI_Request& request) {
                 check(MPI_Isend(from + begin, count, MPI_BYTE, to, tag, communicator_, &request), "MPI_Isend");
               });
  }

  Request receive(Span<std::byte> data, int from, int tag) override {
    check_tag(tag);
    return cut("receive", Calls::messages, data.size(), data, 1,
               [&](std::byte* into, std::size_t begin, int count, MPI_Request& request) {
                 check(MPI_Irecv(into + begin, count, MPI_BYTE, from, tag, communicator_, &request), "MPI_Irecv");
               });
  }

  Request exchange(const std::vector<Outgoing>& outgoing, const std::vector<Incoming>& incoming, int tag) override {
    check_tag(tag);
    std::size_t bytes = 0;
    for (const Outgoing& message : outgoing) bytes += message.data.size();
    const auto operation = std::make_shared<MpiOperation>("exchange", ++started_, name_, bytes, Calls::messages);
    for (const Outgoing& message : outgoing) {
      const std::byte* const from = device::for_messages(message.data, Access::read, Calls::messages);
      for_each_part(message.data.size(), [&](std::size_t begin, int count) {
        check(MPI_Isend(from + begin, count, MPI_BYTE, message.to, tag, communicator_, &operation->next()), "MPI_Isend");
      });
    }
    for (const Incoming& message : incoming) {
      std::byte* const into = operation->receives(message.data);
      for_each_part(message.data.size(), [&](std::size_t begin, int count) {
        check(MPI_Irecv(into + begin, count, MPI_BYTE, message.from, tag, communicator_, &operation->next()), "MPI_Irecv");
      });
    }
    return Request(operation);
  }

  Request all_gather(Span<const std::byte> shard, Span<std::byte> all) override {
    require(all.size() == shard.size() * static_cast<std::size_t>(size_), "all_gather of ", name_, ": ", size_,
            " shards of ", shard.size(), " bytes into ", all.size());
    if (alone_with(all.data())) {
      if (shard.data() != all.data()) device::copy(shard.size(), shard.data(), all.data());
      return {};
    }
    const bool in_place = shard.data() == all.data() + shard.size() * static_cast<std::size_t>(rank_);
    const std::byte* const own = device::for_messages(shard, Access::read, Calls::collectives);
    return cut(
        "all_gather", Calls::collectives, shard.size(), all, 1,
        [&](std::byte* into, std::size_t begin, int count, MPI_Request& request) {
          // Bytes begin .. begin + count of every rank's shard are one element of a type whose extent is a whole shard.
          MPI_Datatype bytes = MPI_DATATYPE_NULL, strided = MPI_DATATYPE_NULL;
          check(MPI_Type_contiguous(count, MPI_BYTE, &bytes), "MPI_Type_contiguous");
          check(MPI_Type_create_resized(bytes, 0, static_cast<MPI_Aint>(shard.size()), &strided), "MPI_Type_create_resized");
          check(MPI_Type_commit(&strided), "MPI_Type_commit");
          const void* from = in_place ? MPI_IN_PLACE : own + begin;
          check(MPI_Iallgather(from, count, MPI_BYTE, into + begin, 1, strided, communicator_, &request), "MPI_Iallgather");
          check(MPI_Type_free(&bytes), "MPI_Type_free");
          check(MPI_Type_free(&strided), "MPI_Type_free");  // MPI keeps it until the operation is complete
        });
  }

  Request all_gather_parts(Span<std::byte> all, const std::vector<std::size_t>& parts) override {
    if (alone_with(all.data())) return {};
    const auto operation = std::make_shared<PartsOperation>("all_gather", ++started_, name_, all.size(), counts(parts, 1));
    const auto own = static_cast<std::size_t>(rank_);
    device::for_messages(all.subspan(static_cast<std::size_t>(operation->displacements[own]), parts[own]), Access::read,
                         Calls::collectives);
    check(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, operation->receives(all), operation->counts.data(),
                          operation->displacements.data(), MPI_BYTE, communicator_, &operation->next()),
          "MPI_Iallgatherv");
    return Request(operation);
  }

  Request reduce_scatter(Span<const std::byte> data, const std::vector<std::size_t>& parts, Span<std::byte> own) override {
    if (alone_with(own.data())) {
      if (data.data() != own.data()) device::copy(own.size(), data.data(), own.data());
      return {};
    }
    const auto operation =
        std::make_shared<PartsOperation>("reduce_scatter", ++started_, name_, data.size(), counts(parts, sizeof(float)));
    check(MPI_Ireduce_scatter(device::for_messages(data, Access::read, Calls::collectives), operation->receives(own),
                              operation->counts.data(), MPI_FLOAT, MPI_SUM, communicator_, &operation->next()),
          "MPI_Ireduce_scatter");
    return Request(operation);
  }

  Request broadcast(Span<std::byte> data, int root) override {
    if (alone_with(data.data())) return {};
    device::for_messages(data, Access::read, Calls::collectives);
    return cut("broadcast", Calls::collectives, data.size(), data, 1,
               [&](std::byte* at, std::size_t begin, int count, MPI_Request& request) {
                 check(MPI_Ibcast(at + begin, count, MPI_BYTE, root, communicator_, &request), "MPI_Ibcast");
               });
  }

  Request barrier() override {
    const auto operation = std::make_shared<MpiOperation>("barrier", ++started_, name_, 0, Calls::collectives);
    check(MPI_Ibarrier(communicator_, &operation->next()), "MPI_Ibarrier");
    return Request(operation);
  }

  Request all_reduce(Span<float> data, Reduce how) override { return reduce(data, how); }
  Request all_reduce(Span<double> data, Reduce how) override { return reduce(data, how); }
  Request all_reduce(Span<std::int64_t> data, Reduce how) override { return reduce(data, how); }
  Request all_reduce(Span<std::uint64_t> data, Reduce how) override { return reduce(data, how); }

  int next_tag() override {
    const int tag = next_tag_++;
    if (next_tag_ == end_of_tags_) next_tag_ = first_composite_tag;
    return tag;
  }

 private:
  /// A rank that is alone in its group needs no message, so the MPI library need not reach its arenas. Memory of the host
  /// goes through the library all the same: it must be complete when the request is.
  bool alone_with(const void* data) const { return size_ == 1 && device::holds(data); }

  void check_tag(int tag) const { require(tag >= 0 && tag < end_of_tags_, "tag ", tag, " of ", name_); }

  std::vector<int> counts(const std::vector<std::size_t>& parts, std::size_t element_bytes) const {
    std::vector<int> result;
    std::size_t bytes = 0;
    for (const std::size_t part : parts) {
      result.push_back(static_cast<int>(part / element_bytes));
      bytes += part;
    }
    require(result.size() == static_cast<std::size_t>(size_) && bytes <= largest_message_, "parts of ", bytes,
            " bytes together for the ", size_, " ranks of ", name_);
    return result;
  }

  /// One operation of as many messages as the data need, but at least one. post(written, first element, elements, request)
  /// posts one; written: where the library writes `received`.
  template <typename Post>
  Request cut(const char* name, Calls calls, std::size_t elements, Span<std::byte> received, std::size_t element_bytes,
              const Post& post) {
    const auto operation = std::make_shared<MpiOperation>(name, ++started_, name_, elements * element_bytes, calls);
    std::byte* const written = operation->receives(received);
    const std::size_t most = std::max<std::size_t>(1, largest_message_ / element_bytes);
    std::size_t begin = 0;
    do {
      const std::size_t count = std::min(most, elements - begin);
      post(written, begin, static_cast<int>(count), operation->next());
      begin += count;
    } while (begin < elements);
    return Request(operation);
  }

  /// Cuts a message into parts that MPI can count; none if it is empty.
  template <typename Post>
  void for_each_part(std::size_t bytes, const Post& post) const {
    for (std::size_t begin = 0; begin < bytes; begin += largest_message_) {
      post(begin, static_cast<int>(std::min(largest_message_, bytes - begin)));
    }
  }

  template <typename T>
  Request reduce(Span<T> data, Reduce how) {
    if (alone_with(data.data())) return {};
    device::for_messages(bytes_of(data), Access::read, Calls::collectives);
    return cut("all_reduce", Calls::collectives, data.size(), bytes_of(data), sizeof(T),
               [&](std::byte* at, std::size_t begin, int count, MPI_Request& request) {
                 check(MPI_Iallreduce(MPI_IN_PLACE, reinterpret_cast<T*>(at) + begin, count, mpi_type<T>(),
                                      mpi_operator(how), communicator_, &request),
                       "MPI_Iallreduce");
               });
  }

  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::string name_;
  std::vector<bool> same_node_;
  std::size_t largest_message_;
  int end_of_tags_;
  std::uint64_t started_ = 0;
  int next_tag_ = first_composite_tag;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(const void* mpi_communicator, std::string name,
                                                    std::vector<bool> same_node, std::size_t largest_message) {
  return std::make_unique<MpiCommunicator>(*static_cast<const MPI_Comm*>(mpi_communicator), std::move(name),
                                           std::move(same_node), largest_message);
}

}  // namespace shoal::comm
