// SPDX-License-Identifier: Apache-2.0
// Step times of every strategy: the bytes sent, compared with the volumes of the papers (Rajbhandari et al. 2020, section 7;
// Wang et al. 2023, "ZeRO++"), and the part of the communication that computation hides.
#include "shoal/plan/step_time.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"

namespace shoal::plan {
namespace of_step_time_test {

constexpr Cluster two_by_two = {2, 2}, four_nodes = {4, 1};

StepTime time_of(const zero::EngineOptions& options, const Cluster& cluster = two_by_two, double compute_s = 0) {
  return step_time(options, {}, cluster.ranks(), cluster, two_levels(), {compute_s, 0});
}

double elements() {
  double sum = 0;
  for (const auto& unit : model::layout(some_options(0).model)) sum += static_cast<double>(unit.elements);
  return sum;
}

/// 8 micro-batches on 4 ranks are 2 micro-steps of each rank.
TEST(StepTimeOf, SendsWhatTheStagesSend) {
  const double bytes = elements() * sizeof(float);
  for (const int stage : {0, 1, 2, 3}) {
    const StepTime time = step_time(some_options(stage), {}, 4, four_nodes, two_levels(), {});
    const double once = 0.75 * bytes;  // mean over ranks; one sends more: shards are whole granules
    const double reduced = time.sent[OperationKind::reduce_scatter].inter,
                 gathered = time.sent[OperationKind::all_gather].inter;
    EXPECT_NEAR(reduced, (stage < 2 ? 1 : 2) * once, 0.05 * once) << stage;
    if (stage < 3) {
      EXPECT_NEAR(gathered, once, 0.05 * once) << stage;
    } else {  // forward and backward of each micro-step, except units that backward uses first
      EXPECT_GT(gathered, 2 * once);
      EXPECT_LE(gathered, 4.1 * once);
    }
    EXPECT_EQ(time.sent.total().intra, 0);
    EXPECT_EQ(time_of(some_options(stage), {1, 1}).sent.total().total(), 0);
  }
}

/// A node of two ranks sends half of all gradients, and of all parameters, to the other node.
TEST(StepTimeOf, WithASecondPartitionGathersAcrossOnce) {
  zero::EngineOptions options = some_options(3);
  const StepTime plain = time_of(options);
  options.zero.hpz_size = 2;
  const StepTime near = time_of(options);
  const double bytes = elements() * sizeof(float);
  EXPECT_NEAR(near.across_per_node, (2 + 1) * bytes / 2, 0.03 * bytes)
      << "gradients of two micro-steps, and parameters once";
  EXPECT_LT(near.across_per_node, plain.across_per_node);
  options.zero.hpz_size = 1;  // every rank keeps a whole copy
  EXPECT_LT(time_of(options).sent[OperationKind::all_gather].intra, near.sent[OperationKind::all_gather].intra);
}

Cost of_two_exchanges(double node_s, double across_s, Sequence sequence) {
  Cost cost;
  cost.node_s = node_s;
  cost.across_s = across_s;
  cost.sequence = sequence;
  return cost;
}

/// Of two operations that are started together, the second one's exchange within nodes goes on beside the first one's across
/// them, unless they follow each other.
TEST(RankClock, OperationsFollowEachOtherIfTheyMust) {
  for (const Sequence sequence : {Sequence::none, Sequence::calls, Sequence::gathers}) {
    const Cost cost = of_two_exchanges(1, 2, sequence);
    RankClock clock(1);
    const RankClock::Pending first = clock.start(OperationKind::reduce_scatter, cost),
                             second = clock.start(OperationKind::all_gather, cost);
    clock.wait(first);
    EXPECT_EQ(clock.now_s(), 3);
    clock.wait(second);
    EXPECT_EQ(clock.now_s(), sequence == Sequence::none ? 5 : 6);
  }
}

/// A sum that goes within nodes first, and a gather that is started later and goes across them first. In one sequence the
/// gather waits for the sum. In two, each uses the link that the other one leaves free, and waits where it does not:
///   sum     in node 0-2, across 4-7 (from 2 on it waits for the gather)
///   gather             across 1-4, in node 4-5
/// Another sum waits for the first one alone: in node 7-9, across 9-12.
TEST(RankClock, GathersGoOnBesideSumsIfTheyAreApart) {
  for (const bool apart : {false, true}) {
    const Cost sum = of_two_exchanges(2, 3, Sequence::calls);
    Cost gather = of_two_exchanges(1, 3, apart ? Sequence::gathers : Sequence::calls);
    gather.node_first = false;
    RankClock clock(1);
    const RankClock::Pending first = clock.start(OperationKind::reduce_scatter, sum);
    clock.work(1);
    const RankClock::Pending between = clock.start(OperationKind::all_gather, gather),
                             last = clock.start(OperationKind::reduce_scatter, sum);
    clock.wait(between);
    EXPECT_EQ(clock.now_s(), apart ? 5 : 9);
    clock.wait(first);
    EXPECT_EQ(clock.now_s(), apart ? 7 : 9);
    clock.wait(last);
    EXPECT_EQ(clock.now_s(), apart ? 12 : 14);
  }
}

/// What is gathered after a sum of the same numbers waits for it, also in a sequence of its own.
TEST(RankClock, AGatherWaitsForTheSumThatItNeeds) {
  RankClock clock(1);
  const RankClock::Pending sum = clock.start(OperationKind::reduce_scatter, of_two_exchanges(2, 0, Sequence::calls)),
                           gather =
                               clock.start_after(sum, OperationKind::all_gather, of_two_exchanges(0, 3, Sequence::gathers));
  clock.wait(gather);
  EXPECT_EQ(clock.now_s(), 5);
}

/// NCCL carries out gathers and sums one after another. Losses and norm are numbers of the host, which MPI sends beside
/// them.
TEST(StepTimeOf, OverNcclOperationsFollowEachOther) {
  NetworkModel queued = two_levels();
  queued.queued = true;
  const StepTime time = step_time(some_options(3), {}, 4, two_by_two, queued, {});
  const double numbers = 2 * CollectiveCosts(queued, two_by_two).small(Grouping::consecutive(4, 4)).total_s();
  EXPECT_GE(time.exposed_s, time.communication_s - numbers);
  const StepTime by_mpi = time_of(some_options(3));
  EXPECT_LT(by_mpi.exposed_s, by_mpi.communication_s - numbers);
}

/// The same bytes in the same seconds of operations, of which computation or other operations hide more.
TEST(StepTimeOf, OverNcclGathersThatAreApartAreHiddenBetter) {
  NetworkModel queued = two_levels();
  queued.queued = true;
  const StepTime together = step_time(some_options(3), {}, 4, two_by_two, queued, {});
  queued.gathers_apart = true;
  const StepTime apart = step_time(some_options(3), {}, 4, two_by_two, queued, {});
  EXPECT_EQ(apart.communication_s, together.communication_s);
  EXPECT_EQ(apart.across_per_node, together.across_per_node);
  EXPECT_LT(apart.exposed_s, together.exposed_s);
  queued.queued = false;
  EXPECT_EQ(step_time(some_options(3), {}, 4, two_by_two, queued, {}).exposed_s, time_of(some_options(3)).exposed_s)
      << "MPI has no sequences";
}

TEST(StepTimeOf, InEightAndFourBitsSendsAQuarterAndAnEighth) {
  zero::EngineOptions options = some_options(3);
  options.zero.hpz_size = 2;
  const StepTime exact = time_of(options);
  options.zero.qwz = 8;
  const StepTime weights = time_of(options);
  options.zero.qgz = 4;
  options.gradients.quantized = zero::quantized_reduction(options.zero, 2);
  const StepTime both = time_of(options);
  const double bytes = elements() * sizeof(float), of_8 = 0.25 * (1 + 4.0 / 256), of_4 = 0.125 * (1 + 8.0 / 256);
  EXPECT_NEAR(exact.across_per_node, (2 + 1) * bytes / 2, 0.03 * bytes);
  EXPECT_NEAR(weights.across_per_node, (2 + of_8) * bytes / 2, 0.03 * bytes);
  EXPECT_NEAR(both.across_per_node, (2 * of_4 + of_8) * bytes / 2, 0.01 * bytes);
  EXPECT_LT(both.total_s(), exact.total_s());
}

TEST(StepTimeOf, HidesNothingWithoutComputationAndMostWithMuch) {
  for (const int stage : {0, 1, 2, 3}) {
    zero::EngineOptions options = some_options(stage);
    options.zero.prefetch_units = 2;
    const StepTime none = time_of(options), much = time_of(options, two_by_two, 10);
    EXPECT_GT(none.exposed_s, 0.5 * none.communication_s) << "one message within nodes hides another between nodes";
    EXPECT_LE(none.exposed_s, none.communication_s * (1 + 1e-9));
    EXPECT_LT(much.exposed_s, (stage == 0 ? 0.9 : 0.7) * none.exposed_s)
        << stage << ": stage 0 gathers sums before the update, and nothing hides that";
    options.gradients.overlap = false;
    const StepTime sequential = time_of(options, two_by_two, 10);
    EXPECT_GT(sequential.exposed_s, much.exposed_s);
    EXPECT_NEAR(sequential.total_s(), 10 + sequential.exposed_s, 1e-12);
  }
}

/// A bucket of all units is complete only when backward ends, and its updated parameters are needed when forward begins.
TEST(StepTimeOf, HidesNothingOfASingleBucket) {
  zero::EngineOptions options = some_options(1);
  options.gradients.bucket_elements = 1'000'000;
  const StepTime one = time_of(options, two_by_two, 10);
  EXPECT_NEAR(one.exposed_s, one.communication_s, 1e-9);
  options.gradients.bucket_elements = 40'000;
  EXPECT_LT(time_of(options, two_by_two, 10).exposed_s, 0.7 * one.exposed_s);
}

TEST(Arithmetic, FollowsTheWidthAndTheShards) {
  const TrainingRates rates = {{{32, 1.0}, {128, 3.0}}, 1e-9};
  const zero::EngineOptions options = some_options(1);  // n_embd 64: halfway between the rates
  const Arithmetic four = arithmetic(options, 4, rates), two = arithmetic(options, 2, rates);
  EXPECT_NEAR(four.micro_batches_s, 2 * 64 * model::flops_per_token(options.model) / 2e9, 1e-12);
  EXPECT_NEAR(two.micro_batches_s, 2 * four.micro_batches_s, 1e-12);
  EXPECT_NEAR(two.update_s, elements() / 2 * 1e-9, 0.02 * two.update_s);
}

/// Eight layers in segments of three: backward computes layers 2, 3 and 0 again, and repeats what it needs of 4 and 1. In
/// segments of one it repeats that of all layers but the last; in one segment nothing.
TEST(Arithmetic, CountsWhatBackwardComputesAgain) {
  const TrainingRates rates = {{{64, 1.0}}, 0};
  zero::EngineOptions options = some_options(1);
  options.model.n_layer = 8;
  const model::ModelOptions& o = options.model;
  const auto C = static_cast<double>(o.n_embd), T = static_cast<double>(o.block_size);
  const double layer = 24 * C * C + 2 * C * (T + 1), without_last_product = layer - 8 * C * C;  // of a token, forward
  const double once = arithmetic(options, 4, rates).micro_batches_s, all = model::flops_per_token(o);
  const auto again = [&](std::int64_t interval) {
    options.capacity.checkpoint_interval = interval;
    return (arithmetic(options, 4, rates).micro_batches_s / once - 1) * all;
  };
  EXPECT_NEAR(again(3), 3 * layer + 2 * without_last_product, 1e-9 * all);
  EXPECT_NEAR(again(model::ActivationOptions::automatic), again(3), 1e-9 * all) << "round(sqrt(8)) = 3";
  EXPECT_NEAR(again(1), 7 * without_last_product, 1e-9 * all);
  EXPECT_NEAR(again(8), 0, 1e-9 * all);
}

}  // namespace of_step_time_test
}  // namespace shoal::plan
