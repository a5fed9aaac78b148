// SPDX-License-Identifier: Apache-2.0
// [Note: both directions at once] in src/comm/collectives/tree_reduce.cpp: between nodes a batch of messages begins when
// everything of the batch before is received and sent. Seen through MPI's profiling interface, which here completes no send
// while a receive is in progress: the sends of a batch are its last messages to complete.
#include <gtest/gtest.h>
#include <mpi.h>

#include <map>
#include <vector>

#include "comm/collectives/tree_stages.hpp"
#include "comm/operations/messages.hpp"
#include "shoal/comm/tree_reduce.hpp"
#include "support/mpi_main.hpp"

namespace {

/// Messages of the operation that is observed.
struct Observed {
  bool on = false;
  std::size_t batch = 1;                       ///< messages that this rank sends in a batch
  std::size_t sends = 0, sent = 0, early = 0;  ///< begun; complete; begun before all of an earlier batch were complete
  std::size_t receiving = 0;
  std::multimap<MPI_Request, bool> in_flight;  ///< true: a send. A library may use one request for several complete ones
} observed;

}  // namespace

extern "C" int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm group,
                         MPI_Request* request) {
  const int status = PMPI_Isend(data, count, type, to, tag, group, request);
  if (!observed.on) return status;
  const std::size_t of_earlier_batches = observed.sends++ / observed.batch * observed.batch;
  if (observed.sent < of_earlier_batches) ++observed.early;
  observed.in_flight.emplace(*request, true);
  return status;
}

extern "C" int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm group, MPI_Request* request) {
  const int status = PMPI_Irecv(data, count, type, from, tag, group, request);
  if (!observed.on) return status;
  ++observed.receiving;
  observed.in_flight.emplace(*request, false);
  return status;
}

extern "C" int MPI_Testall(int count, MPI_Request* requests, int* complete, MPI_Status* statuses) {
  const auto message = count == 1 ? observed.in_flight.find(requests[0]) : observed.in_flight.end();
  if (message == observed.in_flight.end()) return PMPI_Testall(count, requests, complete, statuses);
  const bool is_send = message->second;
  if (is_send && observed.receiving > 0) {
    *complete = 0;
    return MPI_SUCCESS;
  }
  const int status = PMPI_Testall(count, requests, complete, statuses);
  if (*complete == 0) return status;
  observed.in_flight.erase(message);
  if (is_send) {
    ++observed.sent;
  } else {
    --observed.receiving;
  }
  return status;
}

namespace shoal::comm {
namespace {

Communicator& group() { return test::world().all(); }

/// Each rank is a node, so that receive memory limits a batch.
class BatchesBetweenNodes : public testing::Test {
 protected:
  BatchesBetweenNodes() { test::world().make_groups(test::comm_options(1)); }
  ~BatchesBetweenNodes() override { test::world().make_groups(test::comm_options()); }

  static std::size_t ranks() { return static_cast<std::size_t>(group().size()); }
  /// Observes an operation in which a rank sends each other rank two batches and a half of messages of the largest size. Two
  /// ranks exchange as a pair; three exchange directly, and each of them has an equal part of the receive memory.
  template <typename Start>
  void expect_order(const Start& start) {
    const std::size_t others = ranks() - 1, batch = ranks() == 2 ? most_slots_to_receive : most_slots_to_receive / ranks();
    const std::size_t messages = batch * 5 / 2, block_bytes = messages * largest_message_bytes;
    std::vector<std::byte> data(ranks() * block_bytes), scratch(tree_scratch_bytes(group().size(), data.size()));
    Blocks blocks;
    for (std::size_t r = 0; r < ranks(); ++r) {
      blocks.push_back({Span<std::byte>(data).subspan(r * block_bytes, block_bytes)});
    }
    observed = {};
    observed.batch = batch * others;
    observed.on = true;
    start(blocks, scratch).wait();
    observed.on = false;
    EXPECT_EQ(observed.sends, messages * others);
    EXPECT_EQ(observed.early, 0U) << "sends of a batch that began before the batch before was over";
  }
};

TEST_F(BatchesBetweenNodes, OfAReduceScatterFollowEachOther) {
  expect_order([](const Blocks& blocks, Span<std::byte> scratch) {
    return tree_reduce_scatter(group(), blocks, DType::f32, scratch);
  });
}

TEST_F(BatchesBetweenNodes, OfAnAllGatherFollowEachOther) {
  expect_order([](const Blocks& blocks, Span<std::byte> scratch) { return tree_all_gather(group(), blocks, scratch); });
}

}  // namespace
}  // namespace shoal::comm
