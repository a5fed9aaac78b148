// SPDX-License-Identifier: Apache-2.0
// The operations among the ranks of a stage that are in flight, in simulated time.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "plan/pipeline/pipeline_resources.hpp"
#include "shoal/plan/step_messages.hpp"

namespace shoal::plan {

class StageOperations {
 public:
  /// numbers: counts the starts of exchanges of numbers by all stages. clock, resources and numbers must outlive this
  /// object.
  StageOperations(FluidClock& clock, const PipelineResources& resources, int stage, Counter& numbers)
      : clock_(&clock),
        resources_(&resources),
        stage_(stage),
        numbers_(&numbers),
        in_node_(clock),
        across_(clock),
        sequences_{Line(clock), Line(clock)} {}

  struct Operation {
    Operation(FluidClock& clock, double after) : arrived(clock), after_s(after) {}
    Counter arrived;
    double after_s;  ///< computation that follows
  };
  void start(zero::MessageKind kind, const Cost& cost, int stages);
  /// The oldest one of this kind, which is then no longer in flight for this object.
  std::shared_ptr<Operation> take_oldest(zero::MessageKind kind);

 private:
  /// Those that wait for each other, in their order.
  struct Line {
    explicit Line(FluidClock& clock) : served(clock) {}
    std::size_t length = 0;
    Counter served;
  };
  Process exchange_numbers(double seconds, std::size_t begun, std::shared_ptr<Operation> operation);
  Process exchange_data(const Cost& cost, std::shared_ptr<Operation> operation);

  FluidClock* clock_;
  const PipelineResources* resources_;
  int stage_;
  Counter* numbers_;
  std::size_t exchanges_of_numbers_ = 0;
  Line in_node_, across_;
  std::array<Line, sequences> sequences_;  // of those that follow each other, at whatever link
  std::array<std::deque<std::shared_ptr<Operation>>, zero::message_kinds> in_flight_;  // oldest first
};

}  // namespace shoal::plan
