// SPDX-License-Identifier: Apache-2.0
// Gathers parameters. Units whose parameters are sharded (stage 3) are gathered before each use and released after it. Units
// that every rank keeps whole but updates in part (stages 1 and 2; ShardLayout::published) are gathered once after each
// update.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/zero/buckets.hpp"
#include "shoal/zero/quantization.hpp"
#include "shoal/zero/stages.hpp"
#include "shoal/zero/states.hpp"
#include "zero/gather_plan.hpp"
#include "zero/parameter_fetches.hpp"
#include "zero/publishing_order.hpp"
#include "zero/secondary.hpp"

namespace shoal::zero {

struct GatherOptions {
  ZeroOptions zero;
  std::size_t bucket_elements = 6'250'000;  ///< of the largest bucket of the all-gather after an update
  bool overlap = true;                      ///< false: nothing is gathered while the model computes
  comm::Collectives collectives = comm::Collectives::reproducible;
};

class Parameters {
 public:
  /// passes: the orders in which the passes use units.
  Parameters(const std::vector<model::UnitLayout>& units, const std::vector<ShardLayout>& layouts, States& states,
             const std::vector<UseOrder>& passes, const RankGroups& groups, const GatherOptions& options, Memory& memory);

  /// Collective, before each pass; pass is its index. Its calls of acquire() must follow the use order.
  void begin(std::size_t pass);
  /// Waits for the unit's parameters and returns them, whole and in the model's dtype. They stay until release(); a unit may
  /// be acquired again meanwhile. Collective, as gathers are started here.
  const void* acquire(int unit);
  void release(int unit);

  /// Collective, after the shards were written. Starts the all-gather of units that are gathered after each update, and
  /// invalidates the second partition.
  void start_all_gather();
  /// Waits until that all-gather is complete.
  void wait_for_parameters();

  /// With qwZ: enqueues a copy of the quantization errors of all units, since the last call, to the host. Called between
  /// passes, once in a step.
  void fetch_errors() { errors_.fetch(); }
  /// Writes them into the trace. Called after the host has waited for an event behind fetch_errors().
  void trace_errors() {
    errors_.write_counters("parameters", [](std::size_t unit) { return static_cast<int>(unit); });
  }

 private:
  /// A pass: its plan, and indices of plan.gather_lifetimes.
  struct Pass {
    Pass(GatherPlan gathers, std::size_t units);
    GatherPlan plan;
    std::vector<std::vector<std::size_t>> of_unit;  // by unit, in the order of their uses
    std::vector<std::size_t> by_end;                // all, in the order of their last uses
  };
  struct Gather {
    bool over_all_ranks;  // false: from the second partition
    comm::Request request;
  };

  void begin_use();
  void end_use();
  void start_gather(const GatherLifetime& lifetime);
  void finish_gather(const GatherLifetime& lifetime);
  const GatherLifetime& gather_lifetime(int unit) const;
  Span<std::byte> whole(const GatherLifetime& lifetime) const;
  comm::Blocks blocks(const Bucket& bucket) const;
  void execute_publishing(const Calls& calls);
  void publish(std::size_t message);

  std::vector<ShardLayout> layouts_;
  States& states_;
  Secondary secondary_;
  ParameterFetches fetches_;
  RankGroups groups_;
  bool gathers_;
  // For gathers from all ranks, for gathers from the second partition, and for the all-gather after an update.
  std::unique_ptr<comm::Reducer> gatherer_, near_gatherer_, publisher_;

  std::vector<Pass> passes_;
  const Pass* pass_ = nullptr;
  std::size_t use_ = 0;              // index of the current use in the pass, or of the next one if no unit is acquired
  std::size_t held_ = 0;             // calls of acquire() without their release()
  std::size_t lifetimes_ended_ = 0;  // of the pass
  Span<std::byte> gathered_;
  QuantErrors errors_;  // qwZ: by unit, since the last fetch_errors()
  std::deque<Gather> gathering_;
  std::size_t gathers_started_ = 0;

  PublishingOrder publishing_;             // of the all-gather after an update
  std::deque<comm::Request> all_gathers_;  // its messages in flight, oldest first

  std::vector<Span<std::byte>> scratch_;  // one per message in flight, of both kinds of gathers
};

}  // namespace shoal::zero
