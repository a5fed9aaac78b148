// SPDX-License-Identifier: Apache-2.0
// The costs of units: operations counted by hand, and the bytes that the models take from Memory.
#include "shoal/model/costs.hpp"

#include <algorithm>
#include <string>

#include "harness.hpp"
#include "kernels_environment.hpp"
#include "shoal/base/error.hpp"

namespace shoal::model::test {
namespace of_costs_test {

ModelOptions small(ModelKind kind) {
  ModelOptions o;
  o.kind = kind;
  o.n_layer = 3;
  o.n_head = 2;
  o.n_embd = 8;
  o.n_inner = 24;
  o.block_size = 5;
  o.vocab_size = 70;
  return o;
}

TEST(UnitCosts, OfAGptAreCountedByHand) {
  const std::vector<UnitCost> units = costs(small(ModelKind::gpt), DType::f32, {.sequences = 2, .length = 5});
  ASSERT_EQ(units.size(), 5U);
  EXPECT_EQ(units[0].flops(), 0);
  // 5 tokens x 2 operations x (8 x 24 + 8 x 8 + 8 x 24 + 24 x 8) weights, and 15 pairs of tokens x 2 products x 2 x 8.
  const double block = 5 * 2 * 640 + 15 * 2 * 2 * 8, head = 5 * 2 * 8 * 70;
  for (std::size_t i = 1; i <= 3; ++i) {
    EXPECT_EQ(units[i].forward_flops, block);
    EXPECT_EQ(units[i].backward_flops, 2 * block);
    EXPECT_EQ(units[i].repeated_flops, block - 5 * 2 * (24 * 8)) << "all but the last product";
    EXPECT_EQ(units[i].input_bytes, 320U);  // 10 rows x 8 x 4 bytes
    // 320 each: x_mid and attention; 960 q, k, v; 960 u; 128: 2 x 2 x 5 logsumexp, up to a multiple of 64 bytes; 4 x 64: 10
    // means or deviations
    EXPECT_EQ(units[i].kept_bytes, 2 * 320U + 960 + 960 + 128 + 4 * 64);
  }
  EXPECT_EQ(units[4].forward_flops, head);
  EXPECT_EQ(units[4].backward_flops, 2 * head);
}

TEST(UnitCosts, OfADirectConnectionAreTheHeads) {
  ModelOptions o = small(ModelKind::gpt);
  const Capacity capacity{.sequences = 2, .length = 5};
  const std::vector<UnitCost> without = costs(o, DType::f32, capacity);
  o.direct = true;
  const std::vector<UnitCost> with = costs(o, DType::f32, capacity);
  ASSERT_EQ(with.size(), without.size());
  EXPECT_EQ(with[4].forward_flops, 2 * (5 * 2 * 8 * 70));
  EXPECT_EQ(with[4].backward_flops, 2 * with[4].forward_flops);
  EXPECT_EQ(with[4].kept_bytes, without[4].kept_bytes + 320) << "10 rows x 8 x 4 bytes";
  for (std::size_t u = 0; u < 4; ++u) EXPECT_EQ(with[u].flops(), without[u].flops());
  const std::vector<UnitLayout> units = layout(o);
  EXPECT_EQ(units.back().parameter_count(), 2U * 8 + 70 * 8);
  EXPECT_EQ(units.back().elements, 2U * 16 + 128 * 8) << "rows of zeros up to a multiple of 64";
}

TEST(UnitCosts, OfAnMlpAreCountedByHand) {
  const std::vector<UnitCost> units = costs(small(ModelKind::mlp), DType::bf16, {.sequences = 16, .length = 5});
  ASSERT_EQ(units.size(), 5U);
  EXPECT_EQ(units[0].flops(), 0);
  EXPECT_EQ(units[1].forward_flops, 2 * 5 * 8 * 24);
  EXPECT_EQ(units[2].forward_flops, 2 * 24 * 24);
  EXPECT_EQ(units[4].forward_flops, 2 * 24 * 70);
  for (const UnitCost& unit : units) {
    EXPECT_EQ(unit.backward_flops, 2 * unit.forward_flops);
    EXPECT_EQ(unit.repeated_flops, 0) << "a layer's output is in memory, as the input of the next segment";
  }
  EXPECT_EQ(units[1].input_bytes, 16U * 5 * 8 * 2);
  EXPECT_EQ(units[2].input_bytes, 16U * 24 * 2);
  EXPECT_EQ(units[4].kept_bytes, 16U * 70 * 4 + 64 + 16 * 70 * 2);
}

/// The formula for the whole model, which reports of other programs use too: it must be the sum, to the last bit.
TEST(UnitCosts, AddUpToTheFormulaOfTheWholeModel) {
  for (const std::size_t layers : {1, 6, 96}) {
    for (const std::size_t width : {48, 384, 12288}) {
      for (const std::size_t length : {1, 7, 129, 2048}) {
        ModelOptions o = small(ModelKind::gpt);
        o.n_layer = layers, o.n_embd = width, o.n_inner = 0, o.block_size = length, o.vocab_size = 50257;
        const auto L = double(layers), C = double(width), T = double(length), V = 50257.0;
        EXPECT_EQ(flops_per_token(o), 6 * (L * 12 * C * C + C * V) + 12 * L * C * ((T + 1) / 2));
        o.direct = true;
        EXPECT_EQ(flops_per_token(o), 6 * (L * 12 * C * C + 2 * C * V) + 12 * L * C * ((T + 1) / 2));
        o.kind = ModelKind::mlp;
        const double inner = 4 * C;
        EXPECT_EQ(flops_per_token(o), 6 * (T * C * inner + (L - 1) * inner * inner + inner * V) / T);
      }
    }
  }
}

std::size_t planned(const ModelOptions& o, DType dtype, const Capacity& capacity) {
  Memory counting;
  WholeUnits access(layout(o), dtype, 1);
  make(o, dtype, capacity, 1, counting, access);
  return counting.taken()[Kind::activations];
}

TEST(UnitCosts, AreTheActivationsThatTheModelTakes) {
  for (const ModelKind kind : {ModelKind::gpt, ModelKind::mlp}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      for (const int head : {0, 1, 2}) {
        for (const double dropout : {0.0, 0.1}) {
          if (kind == ModelKind::mlp && (dropout > 0 || head > 0)) continue;
          ModelOptions o = small(kind);
          o.tied = head != 1, o.direct = head == 2, o.dropout = dropout;
          for (const std::size_t vocabulary : {70, 7000}) {  // with 7000 the head's scratch is the largest
            o.vocab_size = vocabulary;
            for (const std::size_t sequences : {1, 3, 64}) {
              const Capacity capacity = {.sequences = sequences, .length = 5};
              std::size_t kept = 0, scratch = 0;
              for (const UnitCost& unit : costs(o, dtype, capacity)) {
                kept += unit.input_bytes + unit.kept_bytes;
                scratch = std::max(scratch, unit.scratch_bytes);
              }
              ASSERT_EQ(kept + scratch, planned(o, dtype, capacity))
                  << text(name_of(kind), ' ', name_of(dtype), " head ", head, " dropout ", dropout, ", ", sequences,
                          " sequences, vocabulary ", vocabulary);
            }
          }
        }
      }
    }
  }
}

/// With a segment of one block, forward saves each block's input, and one block's activations exist at a time.
TEST(UnitCosts, GiveTheActivationsOfSegmentsToo) {
  const ModelOptions o = small(ModelKind::gpt);
  Capacity capacity = {.sequences = 3, .length = 5};
  const std::vector<UnitCost> units = costs(o, DType::f32, capacity);
  const std::size_t whole = planned(o, DType::f32, capacity);
  capacity.checkpoint_interval = 1;
  EXPECT_EQ(planned(o, DType::f32, capacity), whole - units[1].kept_bytes - units[2].kept_bytes);
}

}  // namespace of_costs_test
}  // namespace shoal::model::test
