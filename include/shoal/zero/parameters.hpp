// SPDX-License-Identifier: Apache-2.0
// The presence of parameters: units whose parameters are shared out are gathered before a pass uses them and released after
// it (stage 3), units that every rank keeps whole but updates in part are gathered after each step (stages 1 and 2).
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/comm/collectives.hpp"
#include "shoal/zero/gather_plan.hpp"
#include "shoal/zero/messages.hpp"
#include "shoal/zero/quantization.hpp"
#include "shoal/zero/secondary.hpp"
#include "shoal/zero/stages.hpp"
#include "shoal/zero/states.hpp"

namespace shoal::zero {

struct GatherOptions {
  ZeroOptions zero;
  std::size_t message_elements = 6'250'000;  ///< largest message when parameters are published
  bool overlap = true;                       ///< false: nothing is gathered ahead of its use
  comm::Collectives collectives = comm::Collectives::reproducible;
};

class Parameters {
 public:
  enum class Pass { training, evaluation };

  /// training: empty where nothing is trained.
  Parameters(const std::vector<model::UnitLayout>& units, const std::vector<Holding>& holdings, States& states,
             const Visits& training, const Visits& evaluation, const Placement& placement, const GatherOptions& options,
             Memory& memory);

  /// All ranks, before each pass. Its acquire() calls must follow the visits.
  void begin(Pass pass);
  /// The whole unit in the model's dtype, until release(); calls nest.
  const void* acquire(int unit);
  void release(int unit);

  /// All ranks, after the shards were written to: starts to gather what every rank keeps whole.
  void publish();
  /// Waits until all of it has arrived.
  void settle();

 private:
  /// One pass: its plan, and for each visit the gathers that start at its beginning.
  struct Schedule {
    GatherPlan plan;
    std::vector<std::vector<std::size_t>> starting;  // residences by visit
  };
  struct Gather {
    std::size_t residence;
    bool over_all_ranks;  // or from the neighbours' second partition
    comm::Request request;
  };

  Schedule schedule(const Visits& visits, const std::vector<std::string>& names, const GatherOptions& options) const;
  void enter_visit();
  void leave_visit();
  void start_gather(std::size_t residence);
  void finish_gather();
  std::size_t residence_of(int unit) const;
  Span<std::byte> whole(const Residence& residence) const;
  comm::Blocks blocks(const Message& message) const;
  void publish_next();
  void await_published(std::size_t messages);

  std::vector<Holding> holdings_;
  States& states_;
  Secondary secondary_;
  Placement placement_;
  bool overlap_, gathers_;
  comm::Collectives collectives_;

  Schedule passes_[2];
  const Schedule* pass_ = nullptr;
  std::size_t visit_ = 0;  // of the pass: the next one, while nothing is held
  std::size_t held_ = 0;   // calls of acquire() without their release()
  Span<std::byte> gathered_;
  std::optional<kernels::QuantFormat> quantized_;  // qwZ
  std::vector<kernels::QuantError> errors_;        // by unit, since the last update
  std::deque<Gather> gathering_;
  std::size_t gathers_started_ = 0;

  std::vector<Message> messages_;            // of what is published
  std::vector<std::size_t> published_with_;  // by unit: how many messages must have arrived
  std::deque<comm::Request> publishing_;
  std::size_t published_ = 0, publish_started_ = 0;

  std::vector<Span<std::byte>> scratch_;  // one per message in flight, for gathering and for publishing
};

}  // namespace shoal::zero
