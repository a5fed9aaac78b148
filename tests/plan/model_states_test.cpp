// SPDX-License-Identifier: Apache-2.0
// Compares the formulas with the paper's figures, and with the plan of a run.
#include "shoal/plan/model_states.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "shoal/plan/memory.hpp"
#include "shoal/zero/stages.hpp"

namespace shoal::plan {
namespace of_model_states_test {

zero::EngineOptions options(int stage, DType dtype, DType gradients) {
  zero::EngineOptions o;
  o.model = {.n_layer = 3, .n_head = 2, .n_embd = 64, .block_size = 32, .vocab_size = 100, .init_from = ""};
  o.dtype = dtype;
  o.gradients.dtype = gradients;
  o.capacity = {.sequences = 1, .length = 32};
  o.zero.stage = stage;
  o.micro_batches = 16;
  return o;
}

// Figure 1 of the paper: with 16-bit gradients, 7.5 billion parameters on 64 ranks take 120, 31.4, 16.6 and 1.9 GB.
TEST(ModelStates, AreThoseOfThePapersFigureOne) {
  const double wanted[] = {120, 31.4, 16.6, 1.9};
  for (int stage = 0; stage < 4; ++stage) {
    const Ledger ledger = model_states(7'500'000'000, options(stage, DType::bf16, DType::bf16), 64);
    EXPECT_NEAR(static_cast<double>(ledger.total()) / 1e9, wanted[stage], 0.06) << "stage " << stage;
    EXPECT_EQ(model_state_bytes(ledger), ledger.total());
  }
}

TEST(ModelStates, AreTheFirstFourKindsOfALedger) {
  Ledger ledger;
  std::size_t bytes = 1;
  for (const Kind kind : kinds) ledger[kind] = std::exchange(bytes, 10 * bytes);
  EXPECT_EQ(model_state_bytes(ledger), 1111U);
}

TEST(ModelStates, InFp32HaveNoSecondParameters) {
  const Ledger ledger = model_states(1000, options(1, DType::f32, DType::f32), 4);
  EXPECT_EQ(ledger[Kind::parameters], 4000U);
  EXPECT_EQ(ledger[Kind::master], 0U);
  EXPECT_EQ(ledger[Kind::gradients], 4000U);
  EXPECT_EQ(ledger[Kind::moments], 2000U);
}

// Shards are whole granules except for the last of a unit, and buffers are aligned to 64 bytes. So a rank may keep, of each
// state and unit, one granule (1 KiB in fp32) and 64 bytes more than the formula says; and the gaps between tensors, which
// include the rows of zeros behind the vocabulary.
TEST(ModelStates, OfAPlanAreTheFormulaAndPadding) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (int stage = 0; stage < 4; ++stage) {
      for (const int ranks : {1, 2, 4, 16}) {
        const zero::EngineOptions o = options(stage, dtype, DType::f32);
        const auto units = model::layout(o.model);
        std::size_t parameters = 0, gaps = 0;
        for (const auto& unit : units) {
          parameters += unit.parameter_count();
          gaps += unit.elements - unit.parameter_count();
        }
        const Ledger formula = model_states(parameters, o, ranks);
        const Ledger planned = memory(o, 0, ranks).bytes;
        for (const Kind kind : {Kind::parameters, Kind::master, Kind::gradients, Kind::moments}) {
          const std::size_t padding =  // 2: two moments
              2 * (units.size() * (granule * sizeof(float) + 64) + gaps * sizeof(float));
          EXPECT_GE(planned[kind], formula[kind]) << name_of(kind) << ", stage " << stage << ", " << ranks << " ranks";
          EXPECT_LE(planned[kind], formula[kind] + padding) << name_of(kind) << ", stage " << stage << ", " << ranks;
        }
      }
    }
  }
}

}  // namespace of_model_states_test
}  // namespace shoal::plan
