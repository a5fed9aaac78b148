// SPDX-License-Identifier: Apache-2.0
// The presence of parameters: units whose parameters are shared out are gathered before a pass uses them and released after
// it (stage 3), units that every rank keeps whole but updates in part are gathered after each step (stages 1 and 2).
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/zero/buckets.hpp"
#include "shoal/zero/gather_plan.hpp"
#include "shoal/zero/quantization.hpp"
#include "shoal/zero/secondary.hpp"
#include "shoal/zero/stages.hpp"
#include "shoal/zero/states.hpp"

namespace shoal::zero {

struct GatherOptions {
  ZeroOptions zero;
  std::size_t bucket_elements = 6'250'000;  ///< largest message when parameters are published
  bool overlap = true;                      ///< false: nothing is gathered ahead of its use
  comm::Collectives collectives = comm::Collectives::reproducible;
};

class Parameters {
 public:
  enum class Pass { training, evaluation };

  /// training: empty where nothing is trained.
  Parameters(const std::vector<model::UnitLayout>& units, const std::vector<ShardLayout>& layouts, States& states,
             const UseOrder& training, const UseOrder& evaluation, const RankGroups& groups, const GatherOptions& options,
             Memory& memory);

  /// All ranks, before each pass. Its acquire() calls must follow the visits.
  void begin(Pass pass);
  /// The whole unit in the model's dtype, until release(); calls nest.
  const void* acquire(int unit);
  void release(int unit);

  /// All ranks, after the shards were written to: starts to gather what every rank keeps whole.
  void start_all_gather();
  /// Waits until all of it has arrived.
  void wait_for_parameters();

 private:
  /// One pass: its plan, and for each visit the gathers that start at its beginning.
  struct Schedule {
    GatherPlan plan;
    std::vector<std::vector<std::size_t>> starting;  // gather_lifetimes by visit
  };
  struct Gather {
    std::size_t index;    // of plan.gather_lifetimes
    bool over_all_ranks;  // or from the neighbours' second partition
    comm::Request request;
  };

  Schedule schedule(const UseOrder& visits, const std::vector<std::string>& names, const GatherOptions& options) const;
  void begin_use();
  void leave_visit();
  void start_gather(std::size_t index);
  void finish_gather();
  std::size_t gather_lifetime(int unit) const;
  Span<std::byte> whole(const GatherLifetime& lifetime) const;
  comm::Blocks blocks(const Bucket& bucket) const;
  void start_next_all_gather();
  void wait_for_gathered(std::size_t buckets);

  std::vector<ShardLayout> layouts_;
  States& states_;
  Secondary secondary_;
  RankGroups groups_;
  bool overlap_, gathers_;
  // For units gathered over all ranks, those gathered from hpZ's neighbours, and those published after an update.
  std::unique_ptr<comm::Reducer> gatherer_, near_gatherer_, publisher_;

  Schedule passes_[2];
  const Schedule* pass_ = nullptr;
  std::size_t visit_ = 0;  // of the pass: the next one, while nothing is held
  std::size_t held_ = 0;   // calls of acquire() without their release()
  Span<std::byte> gathered_;
  std::vector<kernels::QuantError> errors_;  // qwZ: by unit, since the last update
  std::deque<Gather> gathering_;
  std::size_t gathers_started_ = 0;

  std::vector<Bucket> buckets_;             // of what is published
  std::vector<std::size_t> gathered_with_;  // by unit: how many messages must have arrived
  std::deque<comm::Request> all_gathers_;
  std::size_t all_gathers_done_ = 0, all_gathers_started_ = 0;

  std::vector<Span<std::byte>> scratch_;  // one per message in flight, for gathering and for publishing
};

}  // namespace shoal::zero
