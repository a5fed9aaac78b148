// SPDX-License-Identifier: Apache-2.0
// Quantized collectives give the same bits as the same steps computed by one rank, however the ranks are divided into nodes.
// Also checks the number of bytes that they send.
#include "shoal/comm/quantized.hpp"

#include <cmath>

#include "quantized_cases.hpp"

namespace shoal::comm::quantized_test {
namespace of_quantized_test {

template <typename T>
class QuantizedOf : public Quantized {};
class QuantizedBytes : public Quantized {};
using StorageTypes = testing::Types<float, bf16, f16>;
TYPED_TEST_SUITE(QuantizedOf, StorageTypes);

TYPED_TEST(QuantizedOf, ReduceScatterIsTheTwoStepsOfOneRank) {
  using T = TypeParam;
  for (const std::size_t locals : divisions()) {
    const Nodes nodes(locals);
    for (const ReduceFormats& formats : reduce_formats) {
      for (const Lengths& lengths : layouts()) {
        // The long layout is tested with a single type and format, on nodes of two ranks.
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
        std::vector<std::byte> scratch(quantized_reduce_scratch_bytes(Nodes::groups().node.size(),
                                                                      Nodes::groups().across.size(), most, spans, formats));
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
        for (const Span<std::byte> span : buffer.blocks[rank]) {  // no other block was written
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
        std::vector<QuantError> errors(kernels::quant_error_parts);
        reset_traffic();
        quantized_all_gather(all, buffer.blocks, dtype_of<T>, format, scratch, errors.data()).wait();
        if (world_size() == 1) continue;  // nothing is sent
        QuantError error;
        for (const QuantError& part : errors) error += part;
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
        // Each block's codes go to every other rank once, for any number of ranks; over all ranks, all blocks are sent.
        std::vector<std::uint64_t> sent{traffic().at("all_gather").total()};
        all.all_reduce(Span<std::uint64_t>(sent), Reduce::sum).wait();
        std::size_t codes = 0;
        for (const auto& block : lengths) codes += codes_of(block, format);
        EXPECT_EQ(sent[0], codes * (world_size() - 1));
      }
    }
  }
}

/// Bytes per rank on 2 nodes of 2 ranks, for blocks of 1024 elements: as in ZeRO++'s table, plus the scales.
SHOAL_RUN_IF(QuantizedBytes, BytesBetweenNodesAreTheTheorys, ranks == 4);
TEST_F(QuantizedBytes, BytesBetweenNodesAreTheTheorys) {
  const Nodes nodes(2);
  const Lengths lengths(4, {1024});
  Buffer<bf16> parameters(lengths, 0), gradients(lengths, 0);
  std::vector<std::byte> scratch(
      quantized_gather_scratch_bytes(4, 4096, 4, int8) +
      quantized_reduce_scratch_bytes(Nodes::groups().node.size(), Nodes::groups().across.size(), 1024, 1, {int4, int4}));
  reset_traffic();
  quantized_all_gather(test::world().all(), parameters.blocks, DType::bf16, int8, scratch).wait();
  quantized_reduce_scatter(Nodes::groups(), gradients.blocks, DType::bf16, {int4, int4}, scratch).wait();
  // One block to the other node, then two to the other rank of this node: half of the bytes in bf16, and 4 bytes per 256
  // elements.
  EXPECT_EQ(traffic().at("all_gather").inter, 1024U + 16U);
  EXPECT_EQ(traffic().at("all_gather").intra, 2U * (1024U + 16U));
  // Two blocks to the other rank of this node, one to the other node: a quarter.
  EXPECT_EQ(traffic().at("reduce_scatter").intra, 2U * (512U + 16U));
  EXPECT_EQ(traffic().at("reduce_scatter").inter, 512U + 16U);
}

}  // namespace of_quantized_test
}  // namespace shoal::comm::quantized_test
