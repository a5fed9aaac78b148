// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/memory.hpp"

#include <gtest/gtest.h>

namespace shoal::plan {
namespace {

zero::EngineOptions options(int stage, std::size_t micro_batches) {
  zero::EngineOptions o;
  o.model = {.n_layer = 3, .n_head = 2, .n_embd = 48, .block_size = 32, .vocab_size = 101, .init_from = ""};
  o.capacity = {.sequences = 2, .length = 32};
  o.zero.stage = stage;
  o.micro_batches = micro_batches;
  return o;
}

// `shoal plan` prints the memory of rank 0 only.
TEST(MemoryPlan, RankZeroKeepsTheMost) {
  for (int stage = 0; stage < 4; ++stage) {
    for (const int ranks : {2, 3, 4, 7, 16}) {
      for (const std::size_t times : {1, 3, 4}) {
        const zero::EngineOptions o = options(stage, times * static_cast<std::size_t>(ranks));
        const std::size_t first = memory(o, 0, ranks).bytes.total();
        for (int rank = 1; rank < ranks; ++rank) {
          EXPECT_LE(memory(o, rank, ranks).bytes.total(), first)
              << "rank " << rank << " of " << ranks << ", stage " << stage << ", accumulation " << times;
        }
      }
    }
  }
}

TEST(MemoryPlan, ListsItsPartsLargestFirst) {
  const MemoryPlan plan = memory(options(0, 2), 0, 1);
  Ledger sum;
  for (std::size_t i = 0; i < plan.parts.size(); ++i) {
    sum[plan.parts[i].kind] += plan.parts[i].bytes;
    EXPECT_LE(plan.parts[i].bytes, plan.parts[i == 0 ? 0 : i - 1].bytes);
  }
  EXPECT_EQ(sum, plan.bytes);
}

/// The stages of a pipeline together keep the states of the model once, and of a tied embedding's copy only parameters and
/// gradients.
TEST(MemoryPlan, StatesOfAPartAreThoseOfItsUnits) {
  for (int stage = 0; stage < 4; ++stage) {
    zero::EngineOptions o = options(stage, 24);
    o.dtype = DType::bf16;
    zero::EngineOptions joined = o;
    o.model.tied_gradient = model::TiedGradient::apart;
    for (int rank = 0; rank < 2; ++rank) {
      const Ledger without_copy = memory(joined, rank, 2).bytes;
      EXPECT_EQ(memory(o, rank, 2).bytes[Kind::moments], without_copy[Kind::moments]);
      EXPECT_EQ(memory(o, rank, 2).bytes[Kind::master], without_copy[Kind::master]);
      EXPECT_GT(memory(o, rank, 2).bytes[Kind::parameters], without_copy[Kind::parameters]);
      const Ledger whole = memory(o, rank, 2).bytes;
      Ledger sum;
      for (const model::Part& part : {model::Part{{0, 2}}, model::Part{{2, 3}}, model::Part{{3, 6}}}) {
        zero::EngineOptions of_part = o;
        of_part.parts = {part};
        const Ledger bytes = memory(of_part, rank, 2).bytes;
        for (const Kind kind : kinds) sum[kind] += bytes[kind];
        EXPECT_LT(bytes[Kind::moments], whole[Kind::moments]);
      }
      for (const Kind kind : {Kind::parameters, Kind::master, Kind::gradients, Kind::moments}) {
        EXPECT_EQ(sum[kind], whole[kind]) << name_of(kind) << " of rank " << rank << ", stage " << stage;
      }
    }
  }
}

TEST(MemoryPlan, CountsExtraAllocations) {
  const std::size_t before = memory(options(0, 2), 0, 1).bytes[Kind::buffers];
  const MemoryPlan with =
      memory(options(0, 2), 0, 1, [](zero::Engine&, Memory& memory) { memory.take<float>(Kind::buffers, 1024, "extra"); });
  EXPECT_EQ(with.bytes[Kind::buffers], before + 4096);
}

TEST(AvailableBytes, AreTheLimitOrTheMemoryOfTheNodeDividedByItsRanks) {
  EXPECT_EQ(available_bytes(0.5, 8), std::size_t{1} << 29U);
  EXPECT_EQ(available_bytes(1e300, 1), std::size_t{1} << 62U) << "as good as no limit";
  EXPECT_EQ(available_bytes(0, 4), available_bytes(0, 1) / 4);
}

}  // namespace
}  // namespace shoal::plan
