// SPDX-License-Identifier: Apache-2.0
// The MPI library's collectives give the same results as the tree, on values whose sums are exact.
#include <gtest/gtest.h>

#include <tuple>

#include "shoal/base/error.hpp"
#include "shoal/comm/reducer.hpp"
#include "support/mpi_main.hpp"

namespace shoal::comm {
namespace of_native_test {

/// A message of two units: block d has elements of both, in numbers that differ by rank; some spans are empty.
struct Units {
  std::vector<float> first, second;
  Blocks blocks;
  /// apart: there are gaps between the blocks, as if a unit was cut into several messages.
  Units(int ranks, bool two, bool apart) {
    const auto size = static_cast<std::size_t>(ranks);
    const std::size_t stride = apart ? 40 : 32;
    first.assign(stride * size, 0.0F);
    second.assign(stride * size, 0.0F);
    blocks.resize(size);
    for (std::size_t d = 0; d < size; ++d) {
      const std::size_t count = d + 1 == size && size > 1 ? 0 : 32;
      if (count > 0) blocks[d].push_back(bytes_of(Span<float>(first).subspan(d * stride, count)));
      if (two) blocks[d].push_back(bytes_of(Span<float>(second).subspan(d * stride, 32)));
    }
  }
  template <typename Value>
  void fill(const Value& value) {
    for (std::size_t i = 0; i < first.size(); ++i) {
      first[i] = value(i);
      second[i] = value(i + 1000);
    }
  }
};

std::vector<float> floats(const std::vector<Span<std::byte>>& block) {
  std::vector<float> result;
  for (const Span<std::byte> span : block) {
    const auto* const first = reinterpret_cast<const float*>(span.data());
    result.insert(result.end(), first, first + span.size() / sizeof(float));
  }
  return result;
}

MessageBounds bounds(const Blocks& blocks) {
  MessageBounds result;
  for (const auto& block : blocks) result.elements += floats(block).size();
  return result;
}

class NativeTest : public testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  Communicator& group_ = test::world().all();
  int ranks_ = group_.size();
  Units make() const { return {ranks_, std::get<0>(GetParam()), std::get<1>(GetParam())}; }
  /// Small whole numbers, so that every order of summation gives the same result.
  static float of_rank(int rank, std::size_t i) {
    return static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 13) % 101);
  }
};

TEST_P(NativeTest, ReduceScatterLeavesTheTreesSumWithItsOwner) {
  std::vector<std::vector<float>> own;
  for (const Collectives how : {Collectives::reproducible, Collectives::native}) {
    Units units = make();
    units.fill([&](std::size_t i) { return of_rank(group_.rank(), i); });
    const auto reducer = make_reducer(how, ranks_, &group_);
    std::vector<std::byte> scratch(reducer->reduce_scratch_bytes(bounds(units.blocks), DType::f32));
    reducer->reduce_scatter(units.blocks, DType::f32, scratch, {}).wait();
    own.push_back(floats(units.blocks[static_cast<std::size_t>(group_.rank())]));
  }
  EXPECT_EQ(own[1], own[0]);
}

TEST_P(NativeTest, AllGatherBringsEveryBlock) {
  Units units = make(), expected = make();
  const auto value = [](std::size_t i) { return static_cast<float>(i); };
  expected.fill(value);
  units.fill([](std::size_t) { return -1.0F; });
  const auto own = static_cast<std::size_t>(group_.rank());
  for (std::size_t s = 0; s < units.blocks[own].size(); ++s) {
    std::copy(expected.blocks[own][s].begin(), expected.blocks[own][s].end(), units.blocks[own][s].begin());
  }
  const auto reducer = make_reducer(Collectives::native, ranks_, &group_);
  std::vector<std::byte> scratch(reducer->gather_scratch_bytes(bounds(units.blocks), DType::f32));
  reducer->all_gather(units.blocks, DType::f32, scratch, {}).wait();
  for (std::size_t d = 0; d < units.blocks.size(); ++d) EXPECT_EQ(floats(units.blocks[d]), floats(expected.blocks[d]));
}

TEST_P(NativeTest, AllReduceLeavesEverySumOnAllRanks) {
  Units units = make();
  units.fill([&](std::size_t i) { return of_rank(group_.rank(), i); });
  const auto reducer = make_reducer(Collectives::native, ranks_, &group_);
  EXPECT_EQ(reducer->has_all_reduce(), ranks_ > 1);
  if (reducer->has_all_reduce()) reducer->all_reduce(units.blocks, DType::f32).wait();
  Units expected = make();
  expected.fill([&](std::size_t i) {
    float sum = 0;
    for (int r = 0; r < ranks_; ++r) sum += of_rank(r, i);
    return sum;
  });
  for (std::size_t d = 0; d < units.blocks.size(); ++d) EXPECT_EQ(floats(units.blocks[d]), floats(expected.blocks[d]));
}

SHOAL_RUN_IF(Native, SumsOfSixteenBitsAreRefused, ranks > 1);
TEST(Native, SumsOfSixteenBitsAreRefused) {
  Communicator& group = test::world().all();
  Units units(group.size(), true, true);
  const auto reducer = make_reducer(Collectives::native, group.size(), &group);
  std::vector<std::byte> scratch(reducer->reduce_scratch_bytes(bounds(units.blocks), DType::f32));
  EXPECT_THROW(static_cast<void>(reducer->reduce_scatter(units.blocks, DType::bf16, scratch, {})), Error);
  EXPECT_THROW(static_cast<void>(reducer->all_reduce(units.blocks, DType::bf16)), Error);
}

TEST(Native, TheTreeHasNoAllReduce) {
  Communicator& group = test::world().all();
  const auto reducer = make_reducer(Collectives::reproducible, group.size(), &group);
  EXPECT_FALSE(reducer->has_all_reduce());
  EXPECT_THROW(static_cast<void>(reducer->all_reduce({}, DType::f32)), Error);
}

INSTANTIATE_TEST_SUITE_P(Messages, NativeTest, testing::Combine(testing::Bool(), testing::Bool()));

}  // namespace of_native_test
}  // namespace shoal::comm
