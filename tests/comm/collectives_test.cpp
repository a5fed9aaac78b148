// SPDX-License-Identifier: Apache-2.0
// Compares every operation of the MPI backend with a result that one rank computes alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "comm/world/mpi_communicator.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/pump.hpp"
#include "shoal/comm/communicator.hpp"
#include "support/mpi_main.hpp"

namespace shoal::comm {
namespace of_collectives_test {

/// The values of rank r. They differ by rank and index, and their sums are exact.
template <typename T>
std::vector<T> pattern(int r, std::size_t n) {
  std::vector<T> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<T>((i * 7 + static_cast<std::size_t>(r) * 31) % 101);
  return values;
}

template <typename T>
T reduced(int ranks, std::size_t n, std::size_t i, Reduce how) {
  T result = pattern<T>(0, n)[i];
  for (int r = 1; r < ranks; ++r) {
    const T other = pattern<T>(r, n)[i];
    result = how == Reduce::sum ? result + other : how == Reduce::min ? std::min(result, other) : std::max(result, other);
  }
  return result;
}

/// The group of all ranks, once with the usual messages and once with messages so small that everything is cut, as data
/// above 2^31 bytes are.
class MpiCollectives : public testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override {
    World& world = test::world();
    group_ = make_mpi_communicator(world.mpi_communicator(), "test",
                                   std::vector<bool>(static_cast<std::size_t>(world.size()), true), GetParam());
  }
  Communicator& group() { return *group_; }
  std::size_t ranks() { return static_cast<std::size_t>(group_->size()); }

 private:
  std::unique_ptr<Communicator> group_;
};
INSTANTIATE_TEST_SUITE_P(LargestMessage, MpiCollectives, testing::Values(std::size_t{1} << 30U, 48));

constexpr std::size_t sizes[] = {0, 1, 7, 1000};

TEST_P(MpiCollectives, AllGatherPutsShardsInTheOrderOfRanks) {
  for (const std::size_t n : sizes) {
    const std::vector<std::int64_t> shard = pattern<std::int64_t>(group().rank(), n);
    std::vector<std::int64_t> all(n * ranks(), -1);
    group().all_gather(const_bytes_of(Span<const std::int64_t>(shard)), bytes_of(Span<std::int64_t>(all))).wait();
    for (int r = 0; r < group().size(); ++r) {
      const auto expected = pattern<std::int64_t>(r, n);
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), all.begin() + static_cast<std::ptrdiff_t>(n) * r))
          << n << " elements of rank " << r;
    }
  }
}

TEST_P(MpiCollectives, AllGatherInPlace) {
  for (const std::size_t n : sizes) {
    std::vector<std::int64_t> all(n * ranks(), -1);
    const auto mine = pattern<std::int64_t>(group().rank(), n);
    const Span<std::int64_t> shard = Span<std::int64_t>(all).subspan(n * static_cast<std::size_t>(group().rank()), n);
    std::copy(mine.begin(), mine.end(), shard.begin());
    group().all_gather(bytes_of(shard), bytes_of(Span<std::int64_t>(all))).wait();
    for (int r = 0; r < group().size(); ++r) {
      const auto expected = pattern<std::int64_t>(r, n);
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), all.begin() + static_cast<std::ptrdiff_t>(n) * r));
    }
  }
}

TEST_P(MpiCollectives, BroadcastFromEveryRoot) {
  for (int root = 0; root < group().size(); ++root) {
    for (const std::size_t n : sizes) {
      std::vector<float> data = pattern<float>(group().rank(), n);
      group().broadcast(bytes_of(Span<float>(data)), root).wait();
      EXPECT_EQ(data, pattern<float>(root, n)) << "root " << root;
    }
  }
}

template <typename T>
void expect_reductions(Communicator& group) {
  for (const Reduce how : {Reduce::sum, Reduce::min, Reduce::max}) {
    for (const std::size_t n : sizes) {
      std::vector<T> data = pattern<T>(group.rank(), n);
      group.all_reduce(Span<T>(data), how).wait();
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(data[i], reduced<T>(group.size(), n, i, how)) << "element " << i;
    }
  }
}

TEST_P(MpiCollectives, AllReduceIsTheSerialResult) {
  expect_reductions<float>(group());
  expect_reductions<double>(group());
  expect_reductions<std::int64_t>(group());
  expect_reductions<std::uint64_t>(group());
}

TEST_P(MpiCollectives, MessagesGoRoundTheRing) {
  const int next = (group().rank() + 1) % group().size(), before = (group().rank() + group().size() - 1) % group().size();
  for (const std::size_t n : sizes) {
    const std::vector<float> out = pattern<float>(group().rank(), n);
    std::vector<float> in(n, -1);
    Request receiving = group().receive(bytes_of(Span<float>(in)), before, 3);
    Request sending = group().send(const_bytes_of(Span<const float>(out)), next, 3);
    receiving.wait();
    sending.wait();
    EXPECT_EQ(in, pattern<float>(before, n));
  }
}

TEST_P(MpiCollectives, TagsPairSendsWithReceives) {
  const int self = group().rank();
  std::vector<int> first{0}, second{0};
  const std::vector<int> one{1}, two{2};
  Request receive_second = group().receive(bytes_of(Span<int>(second)), self, 2);
  Request receive_first = group().receive(bytes_of(Span<int>(first)), self, 1);
  group().send(const_bytes_of(Span<const int>(one)), self, 1).wait();
  group().send(const_bytes_of(Span<const int>(two)), self, 2).wait();
  receive_first.wait();
  receive_second.wait();
  EXPECT_EQ(first[0], 1);
  EXPECT_EQ(second[0], 2);
}

TEST_P(MpiCollectives, SeveralAtATimeWaitedForInAnyOrder) {
  std::vector<std::vector<double>> data(5, pattern<double>(group().rank(), 333));
  std::vector<Request> requests;
  for (auto& each : data) requests.push_back(group().all_reduce(Span<double>(each), Reduce::sum));
  Request barrier = group().barrier();
  for (std::size_t i = data.size(); i-- > 0;) requests[i].wait();
  barrier.wait();
  for (const auto& each : data) EXPECT_EQ(each[17], reduced<double>(group().size(), 333, 17, Reduce::sum));
}

TEST_P(MpiCollectives, ThePumpAloneCompletesThem) {
  std::vector<double> data = pattern<double>(group().rank(), 100'000);
  Request request = group().all_reduce(Span<double>(data), Reduce::sum);
  EXPECT_TRUE(request.complete() || shoal::detail::pump_function != nullptr);
  while (shoal::detail::pump_function != nullptr) pump();  // removed when nothing is in flight
  EXPECT_TRUE(request.test());
  EXPECT_EQ(data[99'999], reduced<double>(group().size(), 100'000, 99'999, Reduce::sum));
}

TEST_P(MpiCollectives, ADroppedHandleWaits) {
  std::vector<float> data = pattern<float>(group().rank(), 1000);
  { const Request dropped = group().all_reduce(Span<float>(data), Reduce::sum); }
  EXPECT_EQ(data[999], reduced<float>(group().size(), 1000, 999, Reduce::sum));
}

TEST_P(MpiCollectives, WrongSizesAndTagsAreRefused) {
  std::vector<std::byte> data(10 * ranks() + 1);
  EXPECT_THROW((void)group().all_gather(Span<std::byte>(data).first(10), data), Error);
  EXPECT_THROW((void)group().send(data, 0, 1 << 20), Error);
  EXPECT_THROW((void)group().receive(data, 0, -1), Error);
}

TEST_P(MpiCollectives, TagsOfCompositeOperationsAreTheSameOnAllRanks) {
  std::vector<std::int64_t> least{group().next_tag()}, most = least;
  group().all_reduce(Span<std::int64_t>(least), Reduce::min).wait();
  group().all_reduce(Span<std::int64_t>(most), Reduce::max).wait();
  EXPECT_EQ(least, most);
}

TEST_P(MpiCollectives, TagsOfCompositeOperationsAreReusedAndDifferFromThoseOfMessages) {
  const int first = group().next_tag();
  int tag = group().next_tag(), most = 1 << 20;
  for (; tag != first && most > 0; tag = group().next_tag(), --most) ASSERT_GE(tag, end_of_message_tags);
  EXPECT_EQ(tag, first);
}

}  // namespace of_collectives_test
}  // namespace shoal::comm
