// SPDX-License-Identifier: Apache-2.0
// The validation loss is the mean over all predictions, also if the last batch is shorter than the others.
#include "app/setup/evaluate.hpp"

#include <gtest/gtest.h>

#include "app/setup/assembly.hpp"
#include "app/setup/resolve.hpp"
#include "support/mpi_main.hpp"

namespace shoal::app {
namespace of_evaluate_test {

constexpr std::size_t block_size = 8, sequences = 5;

comm::World& world() { return test::world(); }

config::Options tiny(model::ModelKind kind) {
  config::Options o;
  o.model = {.n_layer = 1, .n_head = 2, .n_embd = 16, .block_size = block_size, .vocab_size = 32, .init_from = ""};
  o.model.kind = kind;
  o.batch.micro = sequences;
  o.batch.global = sequences * 2;
  o.schedule.total_steps = 1;
  return o;
}

/// Summed loss of one sequence after the other.
double sum_by_sequence(zero::Engine& engine, const data::Samples& samples) {
  double sum = 0;
  std::vector<std::int32_t> row(block_size + 1);
  for (std::size_t s = 0; s < sequences; ++s) {
    samples.read(s, row);
    const Span<const std::int32_t> tokens = row;
    sum += engine.evaluate({1, block_size, tokens.first(block_size), tokens.subspan(1), 0, static_cast<std::uint32_t>(s)});
  }
  return sum;
}

/// kind: gpt predicts at every position, mlp after the last one of a sequence.
void expect_mean(model::ModelKind kind, std::size_t predictions_of_a_sequence) {
  const ResolvedRun resolved = resolve(world(), tiny(kind), world().size(), Purpose::evaluate);
  Assembly assembly(resolved, world());
  assembly.engine.initialize(1);
  const data::Samples& samples = *resolved.dataset.validation;
  ASSERT_GT(samples.count(), sequences);
  const double expected =
      sum_by_sequence(assembly.engine, samples) / static_cast<double>(sequences * predictions_of_a_sequence);
  for (const std::size_t micro : {1U, 2U, 3U, 5U}) {
    const double loss = evaluate(world(), assembly.engine, assembly.runner, samples, micro, block_size, sequences);
    // Products of more rows may be summed in another order, and logits are rounded to fp32.
    EXPECT_NEAR(loss, expected, 1e-5) << "batches of " << micro;
  }
}

TEST(Evaluate, IsTheMeanOverAllPositions) { expect_mean(model::ModelKind::gpt, block_size); }
TEST(Evaluate, IsTheMeanOverAllSequences) { expect_mean(model::ModelKind::mlp, 1); }

}  // namespace of_evaluate_test
}  // namespace shoal::app
