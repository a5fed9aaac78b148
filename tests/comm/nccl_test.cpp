// SPDX-License-Identifier: Apache-2.0
// Operations on arenas, which go through NCCL (its double, tests/support/nccl_over_mpi.cpp), give what MPI gives on memory
// of the host, in whatever order the device does its work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <type_traits>
#include <vector>

#include "shoal/base/error.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/device/kind.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/device/queue.hpp"
#include "shoal/kernels/bytes.hpp"
#include "support/mpi_main.hpp"

namespace shoal::comm {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::size_t part = 96;  // elements of a rank

/// An array on the device.
template <typename T>
class Array {
 public:
  explicit Array(std::vector<T> values)
      : host_(std::move(values)), memory_([this](Memory& memory) {
          data_ = memory.take<T>(Kind::gradients, host_.size(), "values", Use::collectives);
        }) {
    device::copy(data_.size_bytes(), host_.data(), data_.data());
  }
  Span<T> data() const { return data_; }
  std::vector<T> values() {
    device::copy(data_.size_bytes(), data_.data(), host_.data());
    device::wait_for_queue();
    return host_;
  }

 private:
  std::vector<T> host_;  // until the device has copied it
  Span<T> data_;
  device::DeviceMemory memory_;
};

class Nccl : public testing::Test {
 protected:
  Nccl() { divide(0); }
  ~Nccl() override { test::world().make_groups({}); }
  void divide(int ranks_per_node, bool gather_group = false) {
    CommOptions options;
    options.gather_group = gather_group;
    options.backend = Backend::nccl;
    options.ranks_per_node = ranks_per_node;
    test::world().make_groups(options);
  }
  Communicator& all() { return test::world().all(); }
  std::size_t ranks() { return static_cast<std::size_t>(all().size()); }
  std::size_t rank() { return static_cast<std::size_t>(all().rank()); }

  /// Small whole numbers, so that every order of summation gives the same result. They differ by rank of all().
  template <typename T = float>
  std::vector<T> numbers(std::size_t count) {
    std::vector<T> result(count);
    for (std::size_t i = 0; i < count; ++i) result[i] = static_cast<T>((i * 7 + rank() * 13) % 101);
    return result;
  }

  /// operate(from, into): the operation on memory of the host, and on the device.
  template <typename T = float, typename Operate>
  void expect_as_mpi(std::size_t from_count, std::size_t into_count, const Operate& operate) {
    std::vector<T> from = numbers<T>(from_count), into(into_count, static_cast<T>(1000));
    Array<T> device_from(from), device_into(into);
    operate(Span<T>(from), Span<T>(into)).wait();
    operate(device_from.data(), device_into.data()).wait();
    EXPECT_EQ(device_into.values(), into);
    EXPECT_EQ(device_from.values(), from);
  }

  /// Every operation of a group.
  void expect_all_operations_as_mpi(Communicator& group);
};

std::vector<std::size_t> bytes_of_parts(std::vector<std::size_t> elements) {
  for (std::size_t& count : elements) count *= sizeof(float);
  return elements;
}

void Nccl::expect_all_operations_as_mpi(Communicator& group) {
  const auto members = static_cast<std::size_t>(group.size()), own = static_cast<std::size_t>(group.rank());
  SCOPED_TRACE(group.name());
  ASSERT_TRUE(group.queued());
  using Floats = Span<float>;
  const auto read = [](Floats values) { return const_bytes_of(Span<const float>(values.data(), values.size())); };

  expect_as_mpi(part, part * members,
                [&](Floats from, Floats into) { return group.all_gather(read(from), bytes_of(into)); });
  expect_as_mpi(part * members, 0,
                [&](Floats from, Floats) { return group.all_gather(read(from.subspan(own * part, part)), bytes_of(from)); });
  std::vector<std::size_t> unequal(members);
  for (std::size_t r = 0; r < members; ++r) unequal[r] = r + 1 == members && members > 1 ? 0 : 16 * (r + 1);
  const std::size_t sum = std::accumulate(unequal.begin(), unequal.end(), std::size_t{0});
  expect_as_mpi(sum, 0,
                [&](Floats from, Floats) { return group.all_gather_parts(bytes_of(from), bytes_of_parts(unequal)); });
  expect_as_mpi(sum, unequal[own], [&](Floats from, Floats into) {
    return group.reduce_scatter(read(from), bytes_of_parts(unequal), bytes_of(into));
  });
  const std::vector<std::size_t> equal(members, part);
  expect_as_mpi(part * members, part, [&](Floats from, Floats into) {
    return group.reduce_scatter(read(from), bytes_of_parts(equal), bytes_of(into));
  });
  const int last = group.size() - 1;
  expect_as_mpi(part, 0, [&](Floats from, Floats) { return group.broadcast(bytes_of(from), last); });
  for (const Reduce how : {Reduce::sum, Reduce::min, Reduce::max}) {
    expect_as_mpi(part, 0, [&](Floats from, Floats) { return group.all_reduce(from, how); });
    expect_as_mpi<double>(part, 0, [&](Span<double> from, Span<double>) { return group.all_reduce(from, how); });
    expect_as_mpi<std::int64_t>(part, 0, [&](Span<std::int64_t> from, auto) { return group.all_reduce(from, how); });
    expect_as_mpi<std::uint64_t>(part, 0, [&](Span<std::uint64_t> from, auto) { return group.all_reduce(from, how); });
  }

  // Two messages from each to each, of different sizes, and an empty one between them.
  expect_as_mpi(part, part * members, [&](Floats from, Floats into) {
    std::vector<Outgoing> outgoing;
    std::vector<Incoming> incoming;
    for (std::size_t r = 0; r < members; ++r) {
      if (r == own) continue;
      const Floats block = into.subspan(r * part, part);
      for (const auto& [begin, count] : {std::pair(0, 24), std::pair(24, 0), std::pair(24, 72)}) {
        const auto first = static_cast<std::size_t>(begin), length = static_cast<std::size_t>(count);
        outgoing.push_back({static_cast<int>(r), read(from.subspan(first, length))});
        incoming.push_back({static_cast<int>(r), bytes_of(block.subspan(first, length))});
      }
    }
    return group.exchange(outgoing, incoming, 5);
  });
  group.barrier().wait();
}

TEST_F(Nccl, AllRanks) { expect_all_operations_as_mpi(all()); }

TEST_F(Nccl, GroupsOfANodeAndAcrossNodes) {
  for (const int per_node : {1, 2}) {
    if (all().size() % per_node != 0) continue;
    divide(per_node);
    expect_all_operations_as_mpi(test::world().across());
    expect_all_operations_as_mpi(test::world().node());
    expect_all_operations_as_mpi(test::world().consecutive(all().size()));
    expect_all_operations_as_mpi(test::world().same_position(1));
  }
}

TEST_F(Nccl, GathersThatAreApart) {
  EXPECT_FALSE(all().gathers_apart());
  divide(all().size() % 2 == 0 ? 2 : 1, true);
  EXPECT_TRUE(all().gathers_apart());
  expect_all_operations_as_mpi(all());
  expect_all_operations_as_mpi(test::world().across());
  expect_all_operations_as_mpi(test::world().node());
}

TEST_F(Nccl, OperationsComeAfterWhatPrecedesAndBeforeWhatFollows) {
  Array<float> values(std::vector<float>(part, 0.0F)), sums(std::vector<float>(part, 0.0F));
  const auto bytes = part * sizeof(float);
  for (int step = 1; step <= 5; ++step) {
    kernels::fill(part, static_cast<float>(step), values.data().data());
    all().all_reduce(values.data(), Reduce::sum).wait();
    kernels::copy_bytes(bytes, reinterpret_cast<const std::byte*>(values.data().data()),
                        reinterpret_cast<std::byte*>(sums.data().data()));
    kernels::fill(part, -1.0F, values.data().data());
    all().broadcast(bytes_of(sums.data()), 0).wait();
    if (step < 5) continue;
    EXPECT_EQ(sums.values(), std::vector<float>(part, static_cast<float>(step) * static_cast<float>(ranks())));
  }
}

SHOAL_RUN_IF(Nccl, TheDeviceSendsWhileTheHostWaitsForMpi, ranks > 1);
TEST_F(Nccl, TheDeviceSendsWhileTheHostWaitsForMpi) {
  Array<float> values(std::vector<float>(part, static_cast<float>(rank()))), sums(std::vector<float>(part, 1.0F));
  all().all_reduce(sums.data(), Reduce::sum).wait();  // all ranks make their communicators
  std::vector<std::byte> word(1);
  if (rank() == 0) {
    all().exchange({{1, bytes_of(values.data())}}, {}, 5).wait();
    all().receive(word, 1, 6).wait();
  } else if (rank() == 1) {
    all().exchange({}, {{0, bytes_of(values.data())}}, 5).wait();
    EXPECT_EQ(values.values(), std::vector<float>(part, 0.0F));
    all().send(word, 0, 6).wait();
  }
  all().barrier().wait();
}

TEST_F(Nccl, ManyOperationsMayBeUnfinished) {
  Array<float> values(std::vector<float>(4, 1.0F));
  for (int i = 0; i < 600; ++i) all().all_reduce(values.data(), Reduce::max).wait();
  EXPECT_EQ(values.values(), std::vector<float>(4, 1.0F));
}

TEST_F(Nccl, CallsOfSeveralGroupsKeepTheirOrderUnlessTheEnvironmentSaysOtherwise) {
  const char* const variable = "NCCL_LAUNCH_ORDER_IMPLICIT";
  EXPECT_STREQ(std::getenv(variable), "1");
  setenv(variable, "0", 1);
  divide(0);
  EXPECT_STREQ(std::getenv(variable), "0");
  setenv(variable, "1", 1);
}

TEST_F(Nccl, CollectivesOfNcclAreConnectedWhenCommunicatorsAreMade) {
  const char* const variable = "NCCL_RUNTIME_CONNECT";
  unsetenv(variable);
  CommOptions options;
  options.backend = Backend::nccl;
  test::world().make_groups(options);
  EXPECT_EQ(std::getenv(variable), nullptr) << "the tree uses none";
  options.collectives = Collectives::native;
  test::world().make_groups(options);
  EXPECT_STREQ(std::getenv(variable), "0");
}

TEST_F(Nccl, MemoryOfBothKindsIsRefused) {
  Array<float> values(std::vector<float>(part * ranks(), 1.0F));
  const std::vector<float> host(part, 1.0F);
  EXPECT_THAT([&] { all().all_gather(const_bytes_of(Span<const float>(host)), bytes_of(values.data())).wait(); },
              ThrowsMessage<Error>(HasSubstr("on memory of the device and of the host")));
  EXPECT_THAT([&] { all().send(bytes_of(values.data()), 0, 1).wait(); }, ThrowsMessage<Error>(HasSubstr("exchange()")));
}

}  // namespace
}  // namespace shoal::comm
