// SPDX-License-Identifier: Apache-2.0
// On which queue the kernels of an operation are, and what they are ordered with: on the simulated device, which does its
// work as late as the events permit.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "network.hpp"
#include "shoal/comm/tree_reduce.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/device/kind.hpp"
#include "shoal/device/queue.hpp"
#include "shoal/kernels/bytes.hpp"

namespace shoal::comm {
namespace {

using device::Queue;
using Numbers = std::vector<float>;  // kernels of this device can use memory of the host

void fill(Numbers& numbers, float value) { kernels::fill(numbers.size(), value, numbers.data()); }

void wait_for(Queue queue) {
  const device::OnQueue scope(queue);
  device::wait_for_queue();
}

/// Copies when it is advanced for the second time.
class Copying final : public Operation {
 public:
  Copying(Queue queue, const Numbers& from, Numbers& to) : queue_(queue), from_(&from), to_(&to) {}
  bool advance() override {
    if (std::exchange(just_started_, false)) return false;
    kernels::copy_bytes(from_->size() * sizeof(float), from_->data(), to_->data());
    return true;
  }
  std::string_view name() const override { return "copy"; }
  std::string describe() const override { return "a copy"; }

 protected:
  std::optional<Queue> queue() const override { return queue_; }

 private:
  Queue queue_;
  const Numbers* from_;
  Numbers* to_;
  bool just_started_ = true;
};

TEST(Operations, ComeAfterTheStartAndBeforeWhatFollowsTheWait) {
  ASSERT_EQ(device::kind(), device::DeviceKind::simulated);
  for (const Queue queue : {Queue::gather, Queue::reduce}) {
    Numbers x(16), y(16);
    fill(x, 1.0F);
    Request request(std::make_shared<Copying>(queue, x, y));
    request.wait();
    fill(x, 2.0F);
    device::wait_for_queue();
    EXPECT_EQ(x.front(), 2.0F);
    EXPECT_EQ(y.front(), 1.0F) << "queue " << static_cast<int>(queue);
  }
}

TEST(Operations, OfOneQueueDoNotWaitForThoseOfAnother) {
  Numbers parameters(16), gathered(16), gradients(16), sums(16);
  fill(parameters, 1.0F);
  Request gather(std::make_shared<Copying>(Queue::gather, parameters, gathered));
  fill(gradients, 1.0F);
  Request reduce(std::make_shared<Copying>(Queue::reduce, gradients, sums));
  gather.wait();
  reduce.wait();
  wait_for(Queue::gather);
  EXPECT_EQ(gathered.front(), 1.0F);
  EXPECT_EQ(gradients.front(), 0.0F) << "enqueued after the gather was started";
  EXPECT_EQ(sums.front(), 0.0F);
  device::wait_for_queue();
  EXPECT_EQ(sums.front(), 1.0F);
}

/// Copies by several kernels, all of them enqueued when it is started.
class CopyingAtStart final : public Operation {
 public:
  CopyingAtStart(const Numbers& from, Numbers& to) : from_(&from), to_(&to) {}
  bool advance() override {
    const std::size_t half = from_->size() / 2;
    kernels::copy_bytes(half * sizeof(float), from_->data() + done_ * half, to_->data() + done_ * half);
    return ++done_ == 2;
  }
  std::string_view name() const override { return "copy"; }
  std::string describe() const override { return "a copy"; }

 protected:
  bool whole_at_start() const override { return true; }

 private:
  const Numbers* from_;
  Numbers* to_;
  std::size_t done_ = 0;
};

TEST(Operations, ThatAreWholeAtTheStartHoldUpOnlyWhatFollowsTheWait) {
  Numbers x(16), y(16), beside(16);
  fill(x, 1.0F);
  Request request(std::make_shared<CopyingAtStart>(x, y));
  fill(beside, 1.0F);
  device::wait_for_queue();
  EXPECT_EQ(beside.front(), 1.0F);
  EXPECT_EQ(y.front(), 0.0F) << "nobody has waited for the operation";
  request.wait();
  fill(x, 2.0F);
  device::wait_for_queue();
  EXPECT_EQ(y.front(), 1.0F);
  EXPECT_EQ(y.back(), 1.0F);
}

/// Two ranks, whose blocks have gaps, so that messages are packed by kernels into the scratch memory, at its beginning.
struct Ranks {
  Ranks() {
    for (std::size_t r = 0; r < 2; ++r) {
      members[r] = network.member({0, 1}, static_cast<int>(r));
      data[r].assign(64, 1.0F);
      scratch[r].resize(tree_scratch_bytes(2, data[r].size() * sizeof(float)));
    }
  }
  Blocks blocks(std::size_t rank) {
    Blocks result(2);
    const Span<float> all(data[rank]);
    for (std::size_t begin = 0; begin < all.size(); begin += 16) {
      result[begin / 32].push_back(bytes_of(all.subspan(begin, 8)));
    }
    return result;
  }
  float packed() const {
    float first = 0;
    std::memcpy(&first, scratch[0].data(), sizeof first);
    return first;
  }

  Network network;
  std::array<std::unique_ptr<Communicator>, 2> members;
  std::array<Numbers, 2> data;
  std::array<std::vector<std::byte>, 2> scratch;
};

/// start(rank's communicator, blocks, scratch): starts a collective.
template <typename Start>
void expect_on(Queue own, Queue other, const Start& start) {
  Ranks ranks;
  std::vector<Request> requests;
  for (std::size_t r = 0; r < 2; ++r) requests.push_back(start(*ranks.members[r], ranks.blocks(r), ranks.scratch[r]));
  wait_for(other);
  EXPECT_EQ(ranks.packed(), 0.0F);
  wait_for(own);
  EXPECT_EQ(ranks.packed(), 1.0F);
  std::mt19937 random(1);
  Arrivals(ranks.network, 2, random).until_complete(requests);
  device::wait_for_queue();  // before the memory is freed
}

TEST(TreeQueues, AreOneForGathersAndOneForSums) {
  expect_on(Queue::gather, Queue::reduce, [](Communicator& rank, Blocks blocks, std::vector<std::byte>& scratch) {
    return tree_all_gather(rank, std::move(blocks), scratch);
  });
  expect_on(Queue::reduce, Queue::gather, [](Communicator& rank, Blocks blocks, std::vector<std::byte>& scratch) {
    return tree_reduce_scatter(rank, std::move(blocks), DType::f32, scratch);
  });
}

}  // namespace
}  // namespace shoal::comm
