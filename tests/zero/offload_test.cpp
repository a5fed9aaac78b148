// SPDX-License-Identifier: Apache-2.0
// Training has the same bits wherever states wait. The tier is one that copies as late as it may.
#include <gtest/gtest.h>

#include <algorithm>

#include "late_tier.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/zero/engine.hpp"
#include "shoal/zero/state_places.hpp"
#include "shoal/zero/update_tiles.hpp"
#include "small_gpt.hpp"
#include "support/mpi_main.hpp"

namespace shoal::zero::test {
namespace of_offload_test {

constexpr std::size_t micro_batches = 8;

comm::World& world() { return shoal::test::world(); }

struct Case {
  int stage = 1;
  DType dtype = DType::f32, kept = DType::f32;
  optim::OptimizerKind optimizer = optim::OptimizerKind::adamw;
};

EngineOptions options(const Case& of, const OffloadOptions& offload) {
  EngineOptions o = small_gpt(of.stage);
  o.model.n_embd = 192;  // a shard of a block has several tiles on two ranks, and a part of one
  o.dtype = of.dtype;
  o.gradients.dtype = of.kept;
  o.optimizer.kind = of.optimizer;
  o.micro_batches = micro_batches;
  o.offload = offload;
  o.zero.gathers_alone = !device::kernels_reach(offload.params);
  return o;
}

struct Results {
  std::vector<double> norms;
  std::vector<std::vector<float>> states;  // of this rank: masters and moments
  bool operator==(const Results&) const = default;
};

void step(Engine& engine, std::uint32_t number, bool skipped, Results& results) {
  const AccumulationPlan& accumulation = engine.accumulation();
  for (std::size_t turn = 0; turn < accumulation.turns(); ++turn) {
    const std::size_t m = accumulation.micro_batch_of_turn(turn, world().all().rank());
    const Tokens tokens(31 * number + m);
    engine.forward(0, turn, {sequences, length, tokens.inputs, tokens.targets, number, static_cast<std::uint32_t>(m)});
    engine.backward(0, turn);
  }
  engine.finish_gradients();
  engine.start_gradient_gather();
  engine.measure();
  const Norm norm = engine.norm();
  results.norms.push_back(norm.value);
  if (skipped) return engine.discard_gradients();
  engine.update(norm, {number + 1, 1e-2, 0.9, 0.95, 1.0F});
  engine.publish();
}

Results trained(const EngineOptions& o) {
  Memory counting(device::images());
  const Engine counted(o, {world().all().rank(), world().all().size(), nullptr}, counting);
  device::DeviceMemory memory(counting.taken());
  LateTier tier(memory);
  RankGroups groups{world().all().rank(), world().all().size(), &world().all()};
  groups.neighbours = &world().node();
  Engine engine(o, groups, memory);
  EXPECT_EQ(memory.taken(), counting.taken());
  engine.initialize(3);
  Results results;
  for (std::uint32_t number = 0; number < 3; ++number) step(engine, number, number == 1, results);
  engine.wait_for_parameters();
  EXPECT_EQ(static_cast<std::size_t>(engine.states().first_not_finite()), engine.units().size());
  std::vector<NamedSlice> slices = engine.states().parameter_slices(States::Which::kept);
  append(slices, engine.states().moment_slices(States::Which::kept));
  for (const NamedSlice& slice : slices) {
    std::vector<float>& values = results.states.emplace_back();
    device::in_pieces(slice.values, device::Access::read, 16,
                      [&](std::size_t, Span<float> piece) { values.insert(values.end(), piece.begin(), piece.end()); });
  }
  for (std::size_t unit = 0; unit < engine.units().size(); ++unit) {
    results.states.push_back(engine.states().whole_master(static_cast<int>(unit)));
  }
  return results;
}

TEST(Offload, ChangesNoBit) {
  for (const Case& of : {Case{1}, Case{3, DType::bf16, DType::bf16}, Case{2, DType::f16},
                         Case{2, DType::f32, DType::f32, optim::OptimizerKind::sgd}}) {
    SCOPED_TRACE(testing::Message() << "stage " << of.stage << ", " << name_of(of.dtype));
    const Results expected = trained(options(of, {}));
    for (const auto& [where, ratio] : {std::pair(Where::cpu, 1.0), {Where::nvme, 1.0}, {Where::nvme, 0.4}}) {
      SCOPED_TRACE(testing::Message() << name_of(where) << ' ' << ratio);
      EXPECT_EQ(trained(options(of, {where, ratio, Where::device})), expected);
    }
  }
}

/// Parameters come up for each use; units below a limit stay.
TEST(Offload, OfParametersChangesNoBit) {
  for (const Case& of : {Case{3}, Case{3, DType::bf16, DType::bf16}, Case{3, DType::f16}}) {
    for (const std::size_t persist_below : {std::size_t{0}, std::size_t{40'000}}) {
      SCOPED_TRACE(testing::Message() << name_of(of.dtype) << ", " << persist_below);
      const auto trained_with = [&](const OffloadOptions& offload) {
        EngineOptions o = options(of, offload);
        o.zero.persist_below = persist_below;
        return trained(o);
      };
      const Results expected = trained_with({});
      EXPECT_EQ(trained_with({Where::device, 1, Where::cpu}), expected);
      EXPECT_EQ(trained_with({Where::device, 1, Where::nvme}), expected);
      EXPECT_EQ(trained_with({Where::nvme, 1, Where::nvme}), expected);
    }
  }
}

/// The plan has the bytes of the optimizer's states where they wait, and no longer on the device.
TEST(Offload, MovesTheBytes) {
  const auto counted = [](const OffloadOptions& offload) {
    Memory memory;
    const Engine engine(options({2, DType::bf16}, offload), {0, 2, nullptr}, memory);
    return memory.taken();
  };
  const Ledger none = counted({}), cpu = counted({Where::cpu, 1, Where::device}),
               nvme = counted({Where::nvme, 1, Where::device});
  EXPECT_EQ(none.in(Where::cpu) + none.in(Where::nvme), 0U);
  EXPECT_EQ(cpu.at(Where::cpu, Kind::moments), none[Kind::moments]);
  EXPECT_EQ(cpu.at(Where::cpu, Kind::master), none[Kind::master]);
  EXPECT_EQ(cpu.at(Where::cpu, Kind::gradients), none[Kind::gradients]);
  EXPECT_EQ(cpu[Kind::moments] + cpu[Kind::master] + cpu[Kind::gradients], 0U);
  EXPECT_EQ(nvme.at(Where::nvme, Kind::gradients), 0U);
  EXPECT_EQ(nvme.at(Where::cpu, Kind::gradients), none[Kind::gradients]);
  EXPECT_GE(nvme.at(Where::nvme, Kind::moments), none[Kind::moments]);
  EXPECT_LT(nvme.total(), none.total() + 3 * 4 * tile_elements * sizeof(float));
  EXPECT_EQ(cpu.total(), none.total());
}

}  // namespace of_offload_test
}  // namespace shoal::zero::test
