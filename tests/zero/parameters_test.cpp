// SPDX-License-Identifier: Apache-2.0
// A unit is whole while it is acquired, however it is sharded.
#include "zero/parameters.hpp"

#include <gtest/gtest.h>

#include <tuple>

#include "shoal/device/memory.hpp"
#include "support/mpi_main.hpp"
#include "support/units.hpp"

namespace shoal::zero {
namespace of_parameters_test {

const UseOrder there_and_back = {{0}, {1}, {2}, {3, 0}, {3}, {2}, {1}};
const UseOrder there = {{0}, {1}, {2}, {3, 0}};
enum Pass : std::size_t { training, evaluation };

std::vector<model::UnitLayout> units() { return shoal::test::units_of({5000, 1500, 256, 16}); }

float value(std::size_t unit, std::size_t element, int version) {
  return static_cast<float>(unit * 10000 + element % 4096) + 0.5F * static_cast<float>(version);
}

/// The states and parameters of one rank, on memory that only counts or is reserved.
struct Rank {
  std::vector<ShardLayout> held;
  States states;
  Parameters parameters;
  Rank(const GatherOptions& options, const RankGroups& groups, Memory& memory)
      : held(shard_layouts(units(), options.zero, groups)),
        states(units(), held, DType::f32, {}, groups, memory),
        parameters(units(), held, states, {there_and_back, there}, groups, options, memory) {}

  void write_shards(int version) {
    for (std::size_t u = 0; u < held.size(); ++u) {
      const Span<float> master = states.master(static_cast<int>(u));
      for (std::size_t i = 0; i < master.size(); ++i) master[i] = value(u, held[u].optimizer.begin + i, version);
    }
    parameters.start_all_gather();
  }
  void expect_whole(int unit, int version) {
    const auto* const x = static_cast<const float*>(parameters.acquire(unit));
    const auto u = static_cast<std::size_t>(unit);
    for (std::size_t i = 0; i < held[u].elements; ++i) ASSERT_EQ(x[i], value(u, i, version)) << "unit " << u << " at " << i;
  }
  void run(Pass pass, int version) {
    parameters.begin(pass);
    for (const auto& visit : pass == training ? there_and_back : there) {
      for (const int unit : visit) expect_whole(unit, version);
      for (const int unit : visit) parameters.release(unit);
    }
  }
};

/// (stage, prefetched units, units below this stay whole, overlap)
class ParametersTest : public testing::TestWithParam<std::tuple<int, std::size_t, std::size_t, bool>> {};

TEST_P(ParametersTest, AreWholeWhileTheyAreAcquired) {
  GatherOptions options;
  std::tie(options.zero.stage, options.zero.prefetch_units, options.zero.persist_below, options.overlap) = GetParam();
  options.bucket_elements = 2000;
  comm::Communicator& group = shoal::test::world().all();
  Memory counting(device::images());
  const Rank planned(options, {group.rank(), group.size(), nullptr}, counting);
  device::DeviceMemory memory(counting.taken());
  Rank rank(options, {group.rank(), group.size(), &group}, memory);
  EXPECT_EQ(memory.taken(), counting.taken());
  for (int version = 1; version <= 3; ++version) {
    rank.write_shards(version);
    rank.run(training, version);
    rank.run(evaluation, version);
    rank.run(training, version);
  }
  rank.parameters.wait_for_parameters();
}

std::uint64_t sent_to_other_nodes() {
  std::uint64_t bytes = 0;
  for (const auto& [name, sent] : comm::traffic()) bytes += sent.inter;
  return bytes;
}

/// (hpz_size, prefetched units, reshard_after_forward)
class SecondaryTest : public testing::TestWithParam<std::tuple<std::size_t, std::size_t, bool>> {
 protected:
  void TearDown() override { shoal::test::world().make_groups(shoal::test::comm_options()); }
};

TEST_P(SecondaryTest, OnlyTheFirstGatherAfterAnUpdateLeavesTheNode) {
  GatherOptions options;
  options.zero.stage = 3;
  std::tie(options.zero.hpz_size, options.zero.prefetch_units, options.zero.reshard_after_forward) = GetParam();
  shoal::test::world().make_groups(shoal::test::comm_options(static_cast<int>(options.zero.hpz_size)));
  comm::Communicator& group = shoal::test::world().all();
  Memory counting(device::images());
  const Rank planned(options, {group.rank(), group.size(), nullptr}, counting);
  device::DeviceMemory memory(counting.taken());
  Rank rank(options, {group.rank(), group.size(), &group, &shoal::test::world().node()}, memory);
  EXPECT_EQ(memory.taken(), counting.taken());
  const bool several_nodes = shoal::test::world().nodes() > 1;
  for (int version = 1; version <= 3; ++version) {
    rank.write_shards(version);
    comm::reset_traffic();
    rank.run(training, version);
    const std::uint64_t first = sent_to_other_nodes();
    EXPECT_EQ(first > 0, several_nodes);
    rank.run(training, version);
    rank.run(evaluation, version);
    EXPECT_EQ(sent_to_other_nodes(), first);
  }
  rank.parameters.wait_for_parameters();
}

/// Sizes of hpZ groups that divide the number of ranks.
std::vector<std::size_t> hpz_sizes() {
  std::vector<std::size_t> result;
  for (const std::size_t size : {1U, 2U, 4U}) {
    if (static_cast<std::size_t>(shoal::test::world().size()) % size == 0) result.push_back(size);
  }
  return result;
}

INSTANTIATE_TEST_SUITE_P(All, SecondaryTest,
                         testing::Combine(testing::ValuesIn(hpz_sizes()), testing::Values(0, 2), testing::Bool()));

INSTANTIATE_TEST_SUITE_P(All, ParametersTest,
                         testing::Combine(testing::Values(0, 1, 2, 3), testing::Values(0, 1, 3), testing::Values(0, 1000),
                                          testing::Bool()));

}  // namespace of_parameters_test
}  // namespace shoal::zero
