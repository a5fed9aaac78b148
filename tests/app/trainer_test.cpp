// SPDX-License-Identifier: Apache-2.0
// Who reports what in a pipeline: losses come from the last stage; a gradient that is not finite, and the wish to stop, from
// any.
#include "app/train/trainer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/mpi_main.hpp"

namespace shoal::app {
namespace of_trainer_test {

using testing::HasSubstr;

config::Options tiny(int stages) {
  config::Options o;
  o.model = {.n_layer = 2, .n_head = 2, .n_embd = 16, .block_size = 8, .vocab_size = 32, .tied = false, .init_from = ""};
  o.batch.micro = 2;
  o.batch.global = 16;
  o.train.eval_batches = 1;
  o.schedule.total_steps = 10;
  o.pipeline.size = stages;
  return o;
}

struct Reports {
  double validation = 0;
  StepReport step;
};

comm::World& world() { return test::world(); }
bool first_stage() { return world().position().pipeline == 0; }

/// A validation and a step. prepare_states(engine) is called before them.
template <typename PrepareStates>
Reports reports(int stages, const PrepareStates& prepare_states, bool wants_stop = false) {
  world().make_groups(test::comm_options(), {.tensor = 1, .pipeline = stages});
  const ResolvedRun resolved = resolve(world(), tiny(stages), world().size(), Purpose::train);
  Assembly assembly(resolved, world());
  assembly.engine.initialize(1);
  assembly.engine.wait_for_parameters();
  prepare_states(assembly.engine);
  Trainer trainer(resolved, world(), assembly);
  const double validation = trainer.evaluate(0);
  return {validation, trainer
                          .step(
                              0, [=] { return wants_stop; }, false)
                          .front()};
}

class Stages : public testing::Test {
 protected:
  void TearDown() override { world().make_groups(test::comm_options()); }
};

TEST_F(Stages, ReportTheLossesOfTheLastOne) {
  const Reports expected = reports(1, [](zero::Engine&) {});
  const Reports found = reports(2, [](zero::Engine&) {});
  EXPECT_EQ(found.validation, expected.validation);
  EXPECT_EQ(found.step.loss, expected.step.loss);
  EXPECT_EQ(found.step.broken, "");
  EXPECT_FALSE(found.step.stop);
}

TEST_F(Stages, AllSkipTheUpdateIfOneHasBrokenParameters) {
  const Reports found = reports(2, [](zero::Engine& engine) {
    if (first_stage()) engine.states().master(1).front() = NAN;
  });
  EXPECT_FALSE(std::isfinite(found.step.loss)) << "on all ranks";
  EXPECT_FALSE(found.step.updated);
  EXPECT_THAT(found.step.broken, HasSubstr("(parameters of unit h.0 are not finite)"));
}

TEST_F(Stages, AllStopIfARankOfTheFirstOneWantsTo) {
  EXPECT_TRUE(reports(
                  2, [](zero::Engine&) {}, world().rank() == 1)
                  .step.stop);
}

}  // namespace of_trainer_test
}  // namespace shoal::app
