// SPDX-License-Identifier: Apache-2.0
// Quantized collectives over time: error feedback, overflow, several in flight; and refusals.
#include <cmath>
#include <limits>

#include "quantized_cases.hpp"
#include "shoal/base/error.hpp"

namespace shoal::comm::quantized_test {
namespace of_quantized_runs_test {

/// If the same gradient is reduced repeatedly, the mean of the results approaches the exact sum.
SHOAL_RUN_IF(Quantized, ErrorFeedbackLosesNothingInTheLongRun, ranks > 1);
TEST_F(Quantized, ErrorFeedbackLosesNothingInTheLongRun) {
  for (const std::size_t locals : divisions()) {
    const Nodes nodes(locals);
    const auto rank = static_cast<std::size_t>(test::world().all().rank());
    const Lengths lengths(world_size(), {500, 77});
    const ReduceFormats formats{int4, int4};
    std::vector<float> within(577 * world_size(), 0.0F), across(577 * nodes.nodes, 0.0F);
    std::vector<std::byte> scratch(
        quantized_reduce_scratch_bytes(Nodes::groups().node.size(), Nodes::groups().across.size(), 577, 2, formats));
    const Numbers exact = [&] {
      Numbers sum{std::vector<float>(500), std::vector<float>(77)};
      for (std::size_t r = 0; r < world_size(); ++r) {
        const Numbers more = numbers_of<float>(r, rank, lengths[rank]);
        for (std::size_t s = 0; s < sum.size(); ++s) add(sum[s], more[s], r == 0);
      }
      return sum;
    }();
    std::vector<double> mean(577, 0.0), off;
    constexpr int rounds = 32;
    for (int round = 0; round < rounds; ++round) {
      Buffer<float> buffer(lengths, rank);
      quantized_reduce_scatter(Nodes::groups(), buffer.blocks, DType::f32, formats, scratch, {within, across}).wait();
      double squares = 0.0;
      std::size_t at = 0;
      for (std::size_t s = 0; s < 2; ++s) {
        const auto* const got = reinterpret_cast<const float*>(buffer.blocks[rank][s].data());
        for (std::size_t i = 0; i < exact[s].size(); ++i, ++at) {
          mean[at] += got[i];
          squares += std::pow(mean[at] / (round + 1) - exact[s][i], 2.0);
        }
      }
      off.push_back(std::sqrt(squares));
    }
    EXPECT_GT(off.front(), 0.0);
    EXPECT_LT(off.back(), 2.0 * off.front() / rounds)
        << locals;  // residuals stay bounded, the mean's error falls as 1 / rounds
  }
}

TEST_F(Quantized, OverflowArrivesAsNaN) {
  for (const std::size_t locals : divisions()) {
    const Nodes nodes(locals);
    Communicator& all = test::world().all();
    const auto rank = static_cast<std::size_t>(all.rank());
    const Lengths lengths(world_size(), {1000});
    for (const ReduceFormats& formats : reduce_formats) {
      Buffer<float> gradients(lengths, rank), parameters(lengths, rank);
      for (std::size_t b = 0; b < world_size(); ++b) {
        auto* const block = reinterpret_cast<float*>(gradients.blocks[b][0].data());
        if (rank == 0) block[300] = std::numeric_limits<float>::infinity();
      }
      if (rank == 0) parameters.data[300] = std::numeric_limits<float>::quiet_NaN();
      std::vector<std::byte> scratch(
          quantized_reduce_scratch_bytes(Nodes::groups().node.size(), Nodes::groups().across.size(), 1000, 1, formats) +
          quantized_gather_scratch_bytes(all.size(), 1000 * world_size(), world_size(), formats.node));
      quantized_reduce_scatter(Nodes::groups(), gradients.blocks, DType::f32, formats, scratch).wait();
      quantized_all_gather(all, parameters.blocks, DType::f32, formats.node, scratch).wait();
      const auto* const sum = reinterpret_cast<const float*>(gradients.blocks[rank][0].data());
      const auto* const gathered = reinterpret_cast<const float*>(parameters.blocks[0][0].data());
      EXPECT_FALSE(std::isfinite(sum[300]));
      EXPECT_TRUE(std::isnan(gathered[300]));
      EXPECT_TRUE(std::isfinite(sum[200]) && std::isfinite(sum[600]) && std::isfinite(gathered[200]));
    }
  }
}

TEST_F(Quantized, SeveralInFlightDoNotMix) {
  for (const std::size_t locals : divisions()) {
    const Nodes nodes(locals);
    Communicator& all = test::world().all();
    const auto rank = static_cast<std::size_t>(all.rank());
    const Lengths lengths(world_size(), {3000, 5});
    const ReduceFormats formats{int8, int4};
    const std::size_t reduce =
        quantized_reduce_scratch_bytes(Nodes::groups().node.size(), Nodes::groups().across.size(), 3005, 2, formats);
    const std::size_t gather =
        quantized_gather_scratch_bytes(all.size(), 3005 * world_size(), 2 * world_size(), formats.node);
    std::vector<Buffer<float>> sums, wholes;
    std::vector<std::vector<std::byte>> scratch(6, std::vector<std::byte>(std::max(reduce, gather)));
    for (std::size_t i = 0; i < 3; ++i) {
      sums.emplace_back(lengths, rank);
      wholes.emplace_back(lengths, rank);
    }
    std::vector<Request> requests;
    for (std::size_t i = 0; i < 3; ++i) {
      requests.push_back(quantized_reduce_scatter(Nodes::groups(), sums[i].blocks, DType::f32, formats, scratch[2 * i]));
      requests.push_back(quantized_all_gather(all, wholes[i].blocks, DType::f32, formats.node, scratch[2 * i + 1]));
    }
    for (std::size_t i = requests.size(); i-- > 0;) requests[i].wait();
    if (world_size() == 1) return;
    for (std::size_t i = 0; i < 3; ++i) {
      expect_block<float>(sums[i].blocks[rank], expected_sum<float>(nodes, nodes.node, nodes.local, lengths, formats));
      Numbers last = numbers_of<float>(world_size() - 1, world_size() - 1, lengths.back());
      for (std::vector<float>& span : last) span = through_codes(formats.node, span);
      expect_block<float>(wholes[i].blocks.back(), last);
    }
  }
}

TEST_F(Quantized, WhatDoesNotFitIsRefused) {
  const Nodes nodes(world_size());
  Communicator& all = test::world().all();
  Buffer<float> buffer(Lengths(world_size(), {100}), 0);
  std::vector<std::byte> none, some(1000);
  constexpr QuantFormat odd{4, 33};
  EXPECT_THROW((void)quantized_all_gather(all, Blocks(world_size() + 1), DType::f32, int8, some), Error);
  EXPECT_THROW((void)quantized_reduce_scatter(Nodes::groups(), Blocks(world_size() + 1), DType::f32, {int8, int8}, some),
               Error);
  EXPECT_THROW((void)quantized_reduce_scatter(Nodes::groups(), buffer.blocks, DType::f32, {int8, {4, 64}}, some), Error);
  std::vector<float> residual(7);
  EXPECT_THROW(
      (void)quantized_reduce_scatter(Nodes::groups(), buffer.blocks, DType::f32, {int8, int8}, some, {residual, {}}), Error);
  if (world_size() == 1) return;
  EXPECT_THROW((void)quantized_all_gather(all, buffer.blocks, DType::f32, int8, none), Error);
  EXPECT_THROW((void)quantized_all_gather(all, buffer.blocks, DType::f32, odd, some), Error);
  EXPECT_THROW((void)quantized_reduce_scatter(Nodes::groups(), buffer.blocks, DType::f32, {int8, int8}, none), Error);
}

}  // namespace of_quantized_runs_test
}  // namespace shoal::comm::quantized_test
