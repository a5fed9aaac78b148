// SPDX-License-Identifier: Apache-2.0
// A step of a pipeline over the ranks of the test, compared with PyTorch in double precision: losses of micro-batches,
// gradients and norm of a GPT whose head is untied, tied, or has a direct connection. On one rank it computes the whole
// model.
#include "support/pipe_oracle.hpp"

#include <optional>

#include "app/setup/pipeline_setup.hpp"
#include "kernels/runtime_environment.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/pipeline/runner.hpp"
#include "support/mpi_main.hpp"

namespace shoal::app {
namespace of_pipe_oracle_test {

using model::TiedGradient;
using pipeline::Checkpoint;
using pipeline::Schedule;
using test::PipeLimits;
using test::PipeOracle;

comm::World& world() { return test::world(); }
int stages() { return world().size(); }

/// How a step is computed.
struct Way {
  std::size_t chunks = 1;
  Schedule schedule = Schedule::one_f_one_b;
  int parts = 1;
  Checkpoint checkpoint = Checkpoint::never;
  const char* balance = "auto";
};

config::Options options_of(const PipeOracle& oracle, TiedGradient tied_gradient, const Way& way) {
  config::Options o;
  o.model = oracle.options();
  o.model.tied_gradient = tied_gradient;
  o.batch.micro = oracle.sequences() / way.chunks;
  o.batch.global = oracle.sequences();
  o.pipeline.size = stages();
  if (stages() == 1) return o;
  o.pipeline.schedule = way.schedule;
  o.pipeline.parts = way.parts;
  o.pipeline.checkpoint = way.checkpoint;
  o.pipeline.balance = way.balance;
  return o;
}

/// One stage with its engine, which takes micro-batches from the oracle.
class Stage final : public pipeline::Stage {
 public:
  Stage(const PipeOracle& oracle, const config::Options& options, std::size_t chunks)
      : oracle_(oracle),
        options_(options),
        chunks_(chunks),
        plan_(stage_plan(options, world().position().pipeline, chunks, true)),
        memory_([&](Memory& memory) {
          engine_.emplace(engine_options(), groups(memory), memory);
          runner_.emplace(memory.counting() ? nullptr : &world().pipeline(), plan_.lists, plan_.shape,
                          border_bytes(options, *engine_), memory);
        }) {
    for (const NamedSlice& slice : engine_->states().parameter_slices(zero::States::Which::kept)) {
      const std::vector<float> initial =
          oracle_.initial(parameter(slice.dataset.substr(std::string("/parameters/").size())));
      for (std::size_t i = 0; i < slice.values.size(); ++i) slice.values[i] = initial.at(slice.range.begin + i);
    }
    engine_->rebuild_parameters();
  }
  ~Stage() override {  // before their memory
    runner_.reset();
    engine_.reset();
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  zero::Engine& engine() { return *engine_; }

  void train() { runner_->train(*this); }
  void evaluate() {
    evaluates_ = true;
    runner_->evaluate(chunks_, *this);
    evaluates_ = false;
  }
  /// By micro-batch, on the stage that has the head.
  const std::vector<double>& evaluated() const { return evaluated_; }

  void forward(int part, std::size_t turn, const pipeline::Borders& borders) override {
    const auto k = static_cast<std::size_t>(part);
    const model::MicroBatch batch = oracle_.micro_batch(turn, chunks_);
    if (!evaluates_) {
      engine_->forward(k, turn, batch, flow_of(borders), keeps_activations(options_, turn, chunks_));
      return;
    }
    engine_->evaluate(k, batch, flow_of(borders));
    if (borders.out.empty()) evaluated_.push_back(engine_->evaluated_loss());
  }
  void backward(int part, std::size_t turn, const pipeline::Borders& borders) override {
    engine_->backward(static_cast<std::size_t>(part), turn, flow_of(borders));
  }

 private:
  zero::EngineOptions engine_options() const {
    zero::EngineOptions o;
    o.model = options_.model;
    o.capacity = {.sequences = options_.batch.micro, .length = options_.model.block_size};
    o.micro_batches = chunks_;
    return with_parts(o, plan_);
  }
  static zero::RankGroups groups(const Memory& memory) {
    zero::RankGroups groups;
    if (memory.counting()) return groups;
    groups.group = &world().data();
    if (stages() > 1) groups.model = &world().model();
    return groups;
  }
  const model::Parameter& parameter(const std::string& name) const {
    for (const model::UnitLayout& unit : engine_->units()) {
      for (const model::Parameter& p : unit.parameters) {
        if (p.name == name) return p;
      }
    }
    fail(name, ": no such parameter");
  }

  const PipeOracle& oracle_;
  const config::Options& options_;
  std::size_t chunks_;
  StagePlan plan_;
  std::optional<zero::Engine> engine_;
  std::optional<pipeline::Runner> runner_;
  device::DeviceMemory memory_;
  bool evaluates_ = false;
  std::vector<double> evaluated_;
};

/// The gradients of this rank's units. Returns their number of elements.
std::size_t expect_gradients(zero::Engine& engine, const PipeOracle& oracle) {
  std::size_t compared = 0;
  for (std::size_t u = 0; u < engine.units().size(); ++u) {
    const Range shard = engine.states().layout(static_cast<int>(u)).shard;
    for (const model::Parameter& p : engine.units()[u].parameters) {
      const Range own = intersection(shard, p.range());
      if (own.empty()) continue;
      const std::vector<double> expected = oracle.gradient(p);
      const double limit = PipeLimits::gradient * test::largest(expected);
      const Span<std::byte> bytes = engine.gradient_shard(static_cast<int>(u), own);
      const auto* const g = reinterpret_cast<const float*>(bytes.data());
      for (std::size_t i = 0; i < own.size(); ++i, ++compared) {
        EXPECT_NEAR(g[i], expected[own.begin - p.offset + i], limit) << p.name << ", " << i;
      }
    }
  }
  return compared;
}

void expect_step(const char* variant, TiedGradient tied_gradient, const Way& way) {
  const PipeOracle oracle(variant);
  const config::Options options = options_of(oracle, tied_gradient, way);
  Stage stage(oracle, options, way.chunks);
  zero::Engine& engine = stage.engine();
  const bool has_head = world().position().pipeline + 1 == stages();
  const double rows = static_cast<double>(options.batch.micro * options.model.block_size);

  stage.evaluate();
  stage.train();
  engine.finish_gradients();
  std::vector<double> compared = {static_cast<double>(expect_gradients(engine, oracle))}, parameters = {0};
  for (const model::UnitLayout& unit : engine.units()) parameters[0] += static_cast<double>(unit.parameter_count());
  world().all().all_reduce(Span<double>(compared), comm::Reduce::sum).wait();
  EXPECT_EQ(compared, parameters) << "all gradients, each on one rank";
  engine.start_gradient_gather();
  engine.measure();
  if (has_head) {
    double sum = 0;
    ASSERT_EQ(stage.evaluated().size(), way.chunks);
    for (std::size_t m = 0; m < way.chunks; ++m) {
      const double expected = oracle.loss_of(m, way.chunks);
      EXPECT_NEAR(engine.loss(m) / rows, expected, PipeLimits::loss) << "micro-batch " << m;
      EXPECT_NEAR(stage.evaluated()[m] / rows, expected, PipeLimits::loss) << "micro-batch " << m;
      sum += engine.loss(m) / rows;
    }
    EXPECT_NEAR(sum / static_cast<double>(way.chunks), oracle.loss(), PipeLimits::loss);
  }
  EXPECT_NEAR(engine.norm().value, oracle.norm(), PipeLimits::gradient * oracle.norm());
  engine.discard_gradients();
}

std::vector<Way> ways() {
  if (stages() == 1) return {{1}, {2}, {4}, {8}};
  std::vector<Way> all;
  for (const std::size_t chunks : {1U, 2U, 4U, 8U}) {
    all.push_back({chunks, Schedule::one_f_one_b});
    all.push_back({chunks, Schedule::gpipe, 1, Checkpoint::except_last});
    if (stages() == 2) all.push_back({chunks, Schedule::gpipe, 2, Checkpoint::always});
    if (stages() == 2 && chunks > 1) all.push_back({chunks, Schedule::interleaved, 2});
  }
  if (stages() < 4) all.push_back({4, Schedule::one_f_one_b, 1, Checkpoint::always, stages() == 2 ? "3,1" : "2,1,1"});
  return all;
}

class PipelineOracle : public testing::Test {
 protected:
  void SetUp() override {
    SHOAL_NEED(PipeOracle::file());
    world().make_groups(test::comm_options(), {.tensor = 1, .pipeline = stages()});
  }
  void TearDown() override { world().make_groups(test::comm_options()); }

  static void expect_steps(const char* variant, TiedGradient tied_gradient) {
    for (const Way& way : ways()) {
      SCOPED_TRACE(testing::Message() << name_of(way.schedule) << ", " << way.chunks << " chunks, " << way.parts
                                      << " parts, " << name_of(way.checkpoint) << ", " << way.balance);
      expect_step(variant, tied_gradient, way);
    }
  }
};

TEST_F(PipelineOracle, Untied) { expect_steps("untied", TiedGradient::joined); }
TEST_F(PipelineOracle, TiedWithGradientsApart) { expect_steps("tied", TiedGradient::apart); }
TEST_F(PipelineOracle, DirectConnection) { expect_steps("direct", TiedGradient::joined); }

SHOAL_RUN_IF(PipelineOracle, TiedWithGradientsJoined, ranks == 1);  // embedding and head must be in one part
TEST_F(PipelineOracle, TiedWithGradientsJoined) { expect_steps("tied", TiedGradient::joined); }

}  // namespace of_pipe_oracle_test
}  // namespace shoal::app
