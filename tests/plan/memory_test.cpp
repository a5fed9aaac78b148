// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/memory.hpp"

#include <gtest/gtest.h>

namespace shoal::plan {
namespace of_memory_test {

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
/// At stage 2 messages use whole parameters, gradients of a micro-batch, and their own memory.
TEST(MemoryPlan, CountsImagesAsStagingMemory) {
  zero::EngineOptions given = options(2, 2);
  const MemoryPlan direct = memory(given, 0, 2);
  given.images = Images::messages;
  const MemoryPlan through_host = memory(given, 0, 2);
  const auto bytes_of = [&](const std::string& label) {
    std::size_t bytes = 0;
    for (const Memory::Entry& part : through_host.parts) bytes += part.label == label ? part.bytes : 0;
    return bytes;
  };
  const std::size_t images = bytes_of("parameters") + bytes_of("gradients of a micro-batch") + bytes_of("messages");
  EXPECT_GT(images, bytes_of("parameters"));
  EXPECT_EQ(bytes_of("copies for messages"), images);
  EXPECT_EQ(through_host.bytes[Kind::staging], direct.bytes[Kind::staging] + images);
  EXPECT_EQ(through_host.bytes.total(), direct.bytes.total() + images);
  EXPECT_EQ(memory(given, 0, 1).bytes, memory(options(2, 2), 0, 1).bytes) << "one rank sends no messages";
}

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

}  // namespace of_memory_test
}  // namespace shoal::plan
