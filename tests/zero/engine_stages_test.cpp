// SPDX-License-Identifier: Apache-2.0
// Engines that each compute one stage of a pipeline, turn by turn, have the losses, norms and parameters of ranks that each
// compute the whole model, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "shoal/device/memory.hpp"
#include "shoal/zero/engine.hpp"
#include "small_gpt.hpp"
#include "support/mpi_main.hpp"

namespace shoal::zero::test {
namespace of_engine_stages_test {

constexpr std::size_t micro_batches = 6;

comm::World& world() { return shoal::test::world(); }

EngineOptions options(int stage, DType dtype, DType kept) {
  EngineOptions o = small_gpt(stage);
  o.dtype = dtype;
  o.gradients.dtype = kept;
  o.gradients.squares = Squares::plain;
  o.micro_batches = micro_batches;
  return o;
}

struct Results {
  std::vector<double> losses, squares, norms;
  std::vector<std::vector<float>> parameters;
  bool operator==(const Results&) const = default;
};

/// One rank of a pipeline of `stages` stages; with one stage, of data-parallel ranks as many as a stage has.
class Rank {
 public:
  Rank(const EngineOptions& o, int stages)
      : stages_(stages),
        bytes_(sequences * length * o.model.n_embd * size_of(o.dtype)),
        memory_(counted(o)),
        engine_(o, groups(stages), memory_),
        border_memory_([&](Memory& memory) {
          for (Span<std::byte>& border : borders_)
            border = memory.take<std::byte>(Kind::buffers, bytes_, "borders", Use::messages);
        }) {
    engine_.initialize(3);
  }

  void step(std::uint32_t number, Results& results) {
    const AccumulationPlan& accumulation = engine_.accumulation();
    for (std::size_t turn = 0; turn < accumulation.turns(); ++turn) {
      const std::size_t m = accumulation.micro_batch_of_turn(turn, world().data().rank());
      const Tokens tokens(31 * number + m);
      const auto [input, output, output_gradient, input_gradient] = borders_;
      receive(input, -1);
      engine_.forward(0, turn,
                      {sequences, length, tokens.inputs, tokens.targets, number, static_cast<std::uint32_t>(m * sequences)},
                      {has(-1) ? input.data() : nullptr, has(1) ? output.data() : nullptr});
      send(output, 1);
      receive(output_gradient, 1);
      engine_.backward(0, turn, {has(1) ? output_gradient.data() : nullptr, has(-1) ? input_gradient.data() : nullptr});
      send(input_gradient, -1);
    }
    engine_.finish_gradients();
    engine_.start_gradient_gather();
    engine_.measure();
    std::vector<double> shares(2 * micro_batches, 0.0);
    for (std::size_t turn = 0; turn < accumulation.turns() && !has(1); ++turn) {
      const std::size_t m = accumulation.micro_batch_of_turn(turn, world().data().rank());
      shares[m] = engine_.loss(turn);
      shares[micro_batches + m] = engine_.square_of_turn(turn);
    }
    comm::Communicator& together = stages_ > 1 ? world().all() : world().data();
    together.all_reduce(Span<double>(shares), comm::Reduce::sum).wait();
    results.losses.insert(results.losses.end(), shares.begin(), shares.begin() + micro_batches);
    results.squares.insert(results.squares.end(), shares.begin() + micro_batches, shares.end());
    const Norm norm = engine_.norm();
    results.norms.push_back(norm.value);
    engine_.update(norm, {number + 1, 1e-2, 0.9, 0.95, 1.0F});
    engine_.publish();
  }

  Engine& engine() { return engine_; }

 private:
  static RankGroups groups(int stages) {
    RankGroups groups{world().data().rank(), world().data().size(), &world().data()};
    groups.node = &world().data_node();
    groups.across = &world().data_across();
    groups.neighbours = &world().consecutive(1);
    if (stages > 1) groups.model = &world().model();
    return groups;
  }
  static Ledger counted(const EngineOptions& o) {
    Memory counting(device::images());
    const Engine planned(o, {world().data().rank(), world().data().size(), nullptr}, counting);
    return counting.taken();
  }

  /// True if there is a stage before (-1) or behind (1) this one.
  bool has(int direction) const {
    const int other = world().position().pipeline + direction;
    return stages_ > 1 && 0 <= other && other < stages_;
  }
  void send(Span<const std::byte> data, int direction) {
    if (has(direction)) world().pipeline().send(data, world().pipeline().rank() + direction, 1).wait();
  }
  void receive(Span<std::byte> data, int direction) {
    if (has(direction)) world().pipeline().receive(data, world().pipeline().rank() + direction, 1).wait();
  }

  int stages_;
  std::size_t bytes_;
  device::DeviceMemory memory_;
  Engine engine_;
  std::array<Span<std::byte>, 4> borders_;  // input, output, and gradients of output and input
  device::DeviceMemory border_memory_;
};

Results run(EngineOptions o, int stages) {
  if (stages > 1) {
    const auto stage = static_cast<std::size_t>(world().position().pipeline);
    const std::vector<std::size_t> cuts =
        stages == 2 ? std::vector<std::size_t>{0, 2, 6} : std::vector<std::size_t>{0, 2, 4, 6};
    o.parts = {{{cuts[stage], cuts[stage + 1]}}};
    const std::size_t turns = micro_batches / static_cast<std::size_t>(world().data().size());
    for (std::size_t turn = 0; turn < turns; ++turn) o.order.insert(o.order.end(), {{0, false, true}, {0, true, true}});
  }
  Results results;
  Rank rank(o, stages);
  for (std::uint32_t step = 0; step < 2; ++step) rank.step(step, results);
  rank.engine().wait_for_parameters();
  for (std::size_t u = 0; u < rank.engine().units().size(); ++u) {
    results.parameters.push_back(rank.engine().states().whole_master(static_cast<int>(u)));
  }
  return results;
}

/// Two stages of two ranks each, or three of one.
class EngineStages : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    world().make_groups(shoal::test::comm_options(), {.tensor = 1, .pipeline = world().size() == 3 ? 3 : 2});
  }
  static void TearDownTestSuite() { world().make_groups(shoal::test::comm_options()); }
};

TEST_F(EngineStages, TrainAsRanksThatComputeTheWholeModel) {
  for (const auto& [stage, dtype, kept] : {std::tuple{0, DType::f32, DType::f32}, std::tuple{1, DType::f32, DType::f32},
                                           std::tuple{0, DType::bf16, DType::bf16}, std::tuple{1, DType::bf16, DType::f32},
                                           std::tuple{2, DType::f32, DType::f32}, std::tuple{3, DType::bf16, DType::f32}}) {
    const EngineOptions o = options(stage, dtype, kept);
    const Results expected = run(o, 1), found = run(o, world().axes().pipeline);
    EXPECT_EQ(found.losses, expected.losses) << "stage " << stage << ", " << name_of(dtype);
    EXPECT_EQ(found.squares, expected.squares);
    EXPECT_EQ(found.norms, expected.norms);
    EXPECT_TRUE(found.parameters == expected.parameters);
    EXPECT_GT(expected.squares.front(), 0);
  }
}

/// Two nodes of one rank each train a stage. Every unit is quantized by itself, so parts of the model make no difference.
TEST_F(EngineStages, RoundMessagesAsRanksThatComputeTheWholeModel) {
  world().make_groups(shoal::test::comm_options(1), {.tensor = 1, .pipeline = 2});
  EngineOptions o = options(3, DType::f32, DType::f32);
  const Results exact = run(o, 1);
  for (const auto& [hpz_size, qwz, qgz, feedback] :
       {std::tuple{1, 0, 0, false}, std::tuple{0, 8, 0, false}, std::tuple{1, 4, 8, false}, std::tuple{0, 0, 4, true}}) {
    o.zero.hpz_size = static_cast<std::size_t>(hpz_size);
    o.zero.qwz = qwz;
    o.zero.qgz = qgz;
    o.zero.quant_feedback = feedback;
    o.gradients.quantized = quantized_reduction(o.zero, 1);
    const Results expected = run(o, 1), found = run(o, 2);
    EXPECT_EQ(expected == exact, qwz == 0 && qgz == 0);
    EXPECT_TRUE(found == expected) << "hpZ " << hpz_size << ", qwZ " << qwz << ", qgZ " << qgz;
  }
  world().make_groups(shoal::test::comm_options(), {.tensor = 1, .pipeline = 2});
}
SHOAL_RUN_IF(EngineStages, RoundMessagesAsRanksThatComputeTheWholeModel, ranks == 4);

}  // namespace of_engine_stages_test
}  // namespace shoal::zero::test
