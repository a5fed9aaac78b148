// SPDX-License-Identifier: Apache-2.0
// Quantized collectives against the same steps made by one rank, bit by bit, however the ranks are divided into nodes.
#include "shoal/comm/quantized.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "shoal/base/error.hpp"
#include "shoal/base/philox.hpp"
#include "support/mpi_main.hpp"

namespace shoal::comm {
namespace {

using kernels::QuantError;
using kernels::QuantFormat;
using kernels::QuantRounding;
using Numbers = std::vector<std::vector<float>>;  // span by span

std::size_t world_size() { return static_cast<std::size_t>(test::world().size()); }

/// The ranks as nodes of `locals`.
struct Nodes {
  std::size_t locals, nodes, local, node;
  explicit Nodes(std::size_t ranks_per_node) : locals(ranks_per_node), nodes(world_size() / ranks_per_node) {
    CommOptions options;
    options.ranks_per_node = static_cast<int>(ranks_per_node);
    test::world().make_groups(options);
    local = static_cast<std::size_t>(test::world().node().rank());
    node = static_cast<std::size_t>(test::world().across().rank());
  }
  static Hierarchy groups() { return {test::world().all(), test::world().node(), test::world().across()}; }
};

/// Ranks of a node: each divisor, and of six ranks three nodes of two.
std::vector<std::size_t> divisions() {
  if (world_size() == 6) return {2};
  std::vector<std::size_t> all;
  for (std::size_t locals = 1; locals <= world_size(); ++locals) {
    if (world_size() % locals == 0) all.push_back(locals);
  }
  return all;
}

class Quantized : public testing::Test {
 protected:
  void TearDown() override { test::world().make_groups({}); }
};

/// What a rank holds of a block.
float number(std::size_t rank, std::size_t block, std::size_t span, std::size_t i, std::size_t round = 0) {
  const auto bits = philox(1000 * rank + block, {static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(span),
                                                 static_cast<std::uint32_t>(round), 0});
  const float wide = uniform(bits[1]) < 0.02F ? 8.0F : 1.0F;
  return (uniform(bits[0]) - 0.5F) * wide;
}

template <typename T>
Numbers numbers_of(std::size_t rank, std::size_t block, const std::vector<std::size_t>& lengths, std::size_t round = 0) {
  Numbers numbers;
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    auto& span = numbers.emplace_back(lengths[s]);
    for (std::size_t i = 0; i < span.size(); ++i) span[i] = static_cast<float>(T(number(rank, block, s, i, round)));
  }
  return numbers;
}

/// Lengths of the spans of each block.
using Lengths = std::vector<std::vector<std::size_t>>;
std::vector<Lengths> layouts() {
  std::vector<Lengths> all(4);
  for (std::size_t b = 0; b < world_size(); ++b) {
    all[0].push_back({1000});
    all[1].push_back({17, 0, 256 + b, 5000, 5});
    all[2].push_back(b == 0 ? std::vector<std::size_t>{300, 44} : std::vector<std::size_t>{});
    all[3].push_back({1'050'000 + b, 3, 70'000});  // several messages in INT8
  }
  return all;
}

std::size_t sum_of(const std::vector<std::size_t>& lengths) {
  std::size_t sum = 0;
  for (const std::size_t length : lengths) sum += length;
  return sum;
}
std::size_t codes_of(const std::vector<std::size_t>& lengths, const QuantFormat& format) {
  std::size_t bytes = 0;
  for (const std::size_t length : lengths) bytes += quantized_bytes(length, format);
  return bytes;
}

/// A rank's buffer, its blocks in it with gaps between the spans.
template <typename T>
struct Buffer {
  Buffer(const Lengths& lengths, std::size_t rank, std::size_t round = 0) {
    constexpr std::size_t gap = 3;
    std::size_t elements = 0;
    for (const auto& block : lengths) elements += sum_of(block) + gap * block.size();
    data.assign(elements, T(77.0F));
    Span<T> left(data);
    for (std::size_t b = 0; b < lengths.size(); ++b) {
      const Numbers numbers = numbers_of<T>(rank, b, lengths[b], round);
      auto& block = blocks.emplace_back();
      for (const auto& span : numbers) {
        for (std::size_t i = 0; i < span.size(); ++i) left[i] = T(span[i]);
        block.push_back(bytes_of(left.first(span.size())));
        left = left.subspan(span.size() + gap);
      }
    }
  }
  std::vector<T> data;
  Blocks blocks;
};

template <typename T>
std::vector<T> rounded(const std::vector<float>& x) {
  std::vector<T> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = T(x[i]);
  return y;
}

template <typename T>
void expect_block(const std::vector<Span<std::byte>>& got, const Numbers& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t s = 0; s < want.size(); ++s) {
    const std::vector<T> bits = rounded<T>(want[s]);
    ASSERT_EQ(got[s].size(), bits.size() * sizeof(T));
    EXPECT_TRUE(bits.empty() || std::memcmp(got[s].data(), bits.data(), got[s].size()) == 0) << "span " << s;
  }
}

std::vector<float> through_codes(const QuantFormat& format, const std::vector<float>& x) {
  std::vector<std::byte> codes(quantized_bytes(x.size(), format));
  kernels::quantize(format, DType::f32, x.size(), x.data(), codes.data());
  std::vector<float> y(x.size());
  kernels::dequantize(format, DType::f32, x.size(), codes.data(), y.data());
  return y;
}

void add(std::vector<float>& sum, const std::vector<float>& more, bool first) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = first ? more[i] : sum[i] + more[i];
}

/// What the block of rank `local` of node `node` sums up to.
template <typename T>
Numbers expected_sum(const Nodes& n, std::size_t node, std::size_t local, const Lengths& lengths,
                     const ReduceFormats& formats) {
  const std::size_t block = node * n.locals + local;
  const bool all_quantized = formats.node.rounding == QuantRounding::deepspeed;
  Numbers total;
  for (const std::size_t length : lengths[block]) total.emplace_back(length);
  for (std::size_t from = 0; from < n.nodes; ++from) {
    Numbers sums = total;
    for (std::size_t d = 0; d < n.locals; ++d) {
      const Numbers own = numbers_of<T>(from * n.locals + d, block, lengths[block]);
      const bool travels = n.locals > 1 && (d != local || all_quantized);
      for (std::size_t s = 0; s < own.size(); ++s) {
        add(sums[s], travels ? through_codes(formats.node, own[s]) : own[s], d == 0);
      }
    }
    const bool travels = n.nodes > 1 && (from != node || all_quantized);
    for (std::size_t s = 0; s < sums.size(); ++s) {
      add(total[s], travels ? through_codes(formats.across, sums[s]) : sums[s], from == 0);
    }
  }
  return total;
}

constexpr QuantFormat int8{8, 256}, int4{4, 256}, as_deepspeed{4, 256, QuantRounding::deepspeed};
constexpr ReduceFormats reduce_formats[] = {{int8, int4}, {int4, int4}, {as_deepspeed, as_deepspeed}};

template <typename T>
class QuantizedOf : public Quantized {};
using StorageTypes = testing::Types<float, bf16, f16>;
TYPED_TEST_SUITE(QuantizedOf, StorageTypes);

TYPED_TEST(QuantizedOf, ReduceScatterIsTheTwoStepsOfOneRank) {
  using T = TypeParam;
  for (const std::size_t locals : divisions()) {
    const Nodes nodes(locals);
    for (const ReduceFormats& formats : reduce_formats) {
      for (const Lengths& lengths : layouts()) {
        // The long one once.
        const bool once = dtype_of<T> == DType::bf16 && formats.node.rounding == QuantRounding::accurate;
        if (lengths[0][0] > 100'000 && !(once && formats.node.bits == 8 && locals == 2)) continue;
        const auto rank = static_cast<std::size_t>(test::world().all().rank());
        Buffer<T> buffer(lengths, rank);
        const std::vector<T> before = buffer.data;
        std::size_t most = 0, spans = 0;
        for (const auto& block : lengths) {
          most = std::max(most, sum_of(block));
          spans = std::max(spans, block.size());
        }
        std::vector<std::byte> scratch(quantized_reduce_scratch_bytes(Nodes::groups(), most, spans, formats));
        reset_traffic();
        quantized_reduce_scatter(Nodes::groups(), buffer.blocks, dtype_of<T>, formats, scratch).wait();
        if (world_size() > 1) {
          expect_block<T>(buffer.blocks[rank], expected_sum<T>(nodes, nodes.node, nodes.local, lengths, formats));
          Traffic theory;
          for (std::size_t b = 0; b < world_size(); ++b) {
            const bool same_local = b % locals == nodes.local, same_node = b / locals == nodes.node;
            if (!same_local) theory.intra += codes_of(lengths[b], formats.node);
            if (same_local && !same_node) theory.inter += codes_of(lengths[b], formats.across);
          }
          EXPECT_EQ(traffic().at("reduce_scatter").intra, theory.intra);
          EXPECT_EQ(traffic().at("reduce_scatter").inter, theory.inter);
        }
        for (const Span<std::byte> span : buffer.blocks[rank]) {  // nothing else was written to
          const std::size_t at = static_cast<std::size_t>(span.data() - reinterpret_cast<std::byte*>(buffer.data.data()));
          if (!span.empty()) std::memcpy(span.data(), reinterpret_cast<const std::byte*>(before.data()) + at, span.size());
        }
        EXPECT_EQ(std::memcmp(buffer.data.data(), before.data(), before.size() * sizeof(T)), 0);
      }
    }
  }
}

TYPED_TEST(QuantizedOf, AllGatherIsTheOwnersCodesOnAllRanks) {
  using T = TypeParam;
  for (const std::size_t locals : divisions()) {
    const Nodes nodes(locals);
    Communicator& all = test::world().all();
    const auto rank = static_cast<std::size_t>(all.rank());
    for (const QuantFormat& format :
         {QuantFormat{8, 256}, QuantFormat{4, 64}, QuantFormat{8, 64, QuantRounding::deepspeed}}) {
      for (const Lengths& lengths : layouts()) {
        if (lengths[0][0] > 100'000 && (dtype_of<T> != DType::bf16 || format.bits != 8 || locals != 2)) continue;
        Buffer<T> buffer(lengths, rank);
        std::size_t elements = 0, spans = 0;
        for (const auto& block : lengths) {
          elements += sum_of(block);
          spans += block.size();
        }
        std::vector<std::byte> scratch(quantized_gather_scratch_bytes(all.size(), elements, spans, format));
        QuantError error;
        reset_traffic();
        quantized_all_gather(all, buffer.blocks, dtype_of<T>, format, scratch, &error).wait();
        if (world_size() == 1) continue;  // nothing travels
        for (std::size_t b = 0; b < world_size(); ++b) {
          Numbers want = numbers_of<T>(b, b, lengths[b]);
          double lost = 0.0;
          for (std::vector<float>& span : want) {
            const std::vector<float> sent = through_codes(format, span);
            for (std::size_t i = 0; i < span.size(); ++i) lost += std::pow(double(span[i]) - double(sent[i]), 2.0);
            span = sent;
          }
          expect_block<T>(buffer.blocks[b], want);
          EXPECT_TRUE(b != rank || std::abs(error.errors - lost) <= 1e-5 * lost);
        }
        // Codes go to each other rank once, whatever the numbers of ranks; all blocks together, each is sent by somebody.
        std::vector<std::uint64_t> sent{traffic().at("all_gather").total()};
        all.all_reduce(Span<std::uint64_t>(sent), Reduce::sum).wait();
        std::size_t codes = 0;
        for (const auto& block : lengths) codes += codes_of(block, format);
        EXPECT_EQ(sent[0], codes * (world_size() - 1));
      }
    }
  }
}

/// 2 nodes of 2 ranks, blocks of 1024 elements, in bytes per rank: as ZeRO++'s table has them, scales included.
TEST_F(Quantized, BytesBetweenNodesAreTheTheorys) {
  if (world_size() != 4) return;
  const Nodes nodes(2);
  const Lengths lengths(4, {1024});
  Buffer<bf16> parameters(lengths, 0), gradients(lengths, 0);
  std::vector<std::byte> scratch(quantized_gather_scratch_bytes(4, 4096, 4, int8) +
                                 quantized_reduce_scratch_bytes(Nodes::groups(), 1024, 1, {int4, int4}));
  reset_traffic();
  quantized_all_gather(test::world().all(), parameters.blocks, DType::bf16, int8, scratch).wait();
  quantized_reduce_scatter(Nodes::groups(), gradients.blocks, DType::bf16, {int4, int4}, scratch).wait();
  // One block to the other node, then two to the neighbour: half of what bf16 takes, and 4 bytes for 256 elements.
  EXPECT_EQ(traffic().at("all_gather").inter, 1024U + 16U);
  EXPECT_EQ(traffic().at("all_gather").intra, 2U * (1024U + 16U));
  // Two blocks to the neighbour, one to the other node: a quarter.
  EXPECT_EQ(traffic().at("reduce_scatter").intra, 2U * (512U + 16U));
  EXPECT_EQ(traffic().at("reduce_scatter").inter, 512U + 16U);
}

/// Of the same gradient again and again, the mean of what arrives comes nearer to the exact sum with every round.
TEST_F(Quantized, ErrorFeedbackLosesNothingInTheLongRun) {
  if (world_size() == 1) return;
  for (const std::size_t locals : divisions()) {
    const Nodes nodes(locals);
    const auto rank = static_cast<std::size_t>(test::world().all().rank());
    const Lengths lengths(world_size(), {500, 77});
    const ReduceFormats formats{int4, int4};
    std::vector<float> within(577 * world_size(), 0.0F), across(577 * nodes.nodes, 0.0F);
    std::vector<std::byte> scratch(quantized_reduce_scratch_bytes(Nodes::groups(), 577, 2, formats));
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
          quantized_reduce_scratch_bytes(Nodes::groups(), 1000, 1, formats) +
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
    const std::size_t reduce = quantized_reduce_scratch_bytes(Nodes::groups(), 3005, 2, formats);
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
  EXPECT_EQ(unequal_nodes({0, 0, 1, 1}), "");
  EXPECT_EQ(unequal_nodes({0, 0, 1, 1, 1}), "node 1 has 3 ranks, node 0 has 2");
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

}  // namespace
}  // namespace shoal::comm
