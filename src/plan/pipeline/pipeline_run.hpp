// SPDX-License-Identifier: Apache-2.0
// Executes steps of a pipeline in simulated time. Each stage is a process that goes through its list as a rank does
// (pipeline/runner.hpp), and each message is one, too:
//
//   stage 0    F0 | F1 |              B0   | F2 |  ...        processors of a node: shared by the stages on it
//   border       ===  ===             ^       ===             its link to other nodes, in each direction: shared by all
//   stage 1           F0  | B0   | F1 | B1   |                that goes over it at the moment
//   border                    ========  ===                   (gradients, which go back over the other direction)
//
// All data-parallel ranks of a stage do the same at the same time, so one of them stands for all.
#pragma once

#include <array>
#include <deque>
#include <vector>

#include "plan/pipeline/fluid_clock.hpp"
#include "plan/pipeline/pipeline_copies.hpp"
#include "plan/pipeline/stage_operations.hpp"
#include "plan/pipeline/stage_schedule.hpp"
#include "shoal/pipeline/buffers.hpp"
#include "shoal/pipeline/uses.hpp"

namespace shoal::plan {

class PipelineRun {
 public:
  /// The arguments must outlive this object, but for copies.
  PipelineRun(const PipelinePlan& plan, const StagePlaces& places, const NetworkModel& network, const Arithmetic& arithmetic,
              std::vector<StageSchedule>& schedules, const std::vector<CopyBytes>& copies);

  /// Executes so many steps. What follows is of the last one.
  void execute(std::size_t steps);

  double seconds() const { return end_s_ - begin_s_; }
  /// Seconds in which a stage computes: in its passes, and in all.
  double passes_s(int stage) const { return at(stage).passes_s; }
  double computes_s(int stage) const { return at(stage).computes_s; }
  /// Until the last pass of all stages ends.
  double last_pass_s() const { return last_pass_s_ - begin_s_; }
  /// Of the operations among its ranks, as if none overlapped; and their bytes, by data-parallel rank.
  double operations_s(int stage) const { return at(stage).operations_s; }
  const std::vector<Sent>& sent(int stage) const { return at(stage).sent; }

 private:
  struct Stage;
  /// The borders of one kind for one part of the model, or of the skip connection, in turn order, over all steps.
  struct Channel {
    explicit Channel(FluidClock& clock) : arrived(clock), released(clock) {}
    Stage* to = nullptr;
    Transfer transfer;
    std::size_t made = 0, buffers = 0;  // buffers: of the stage that receives
    Counter arrived, released;
  };
  struct Stage {
    Stage(FluidClock& clock, const PipelineResources& resources, int index, Counter& numbers)
        : number(index), begun(clock), executed(clock), exchanged(clock), operations(clock, resources, index, numbers) {}
    int number;
    StageSchedule* schedule = nullptr;
    double update_s = 0;
    std::vector<pipeline::Use> uses;
    std::array<std::size_t, 4> send_buffers{};  // by pool: of each kind, then those of the skip connection
    std::array<std::deque<Counter>, 4> sends;   // the latest ones from these buffers; 1: it has ended
    Counter begun;                              // steps
    Counter executed, exchanged;                // calls of execute(), and of exchange()
    std::size_t executions = 0, exchanges = 0;
    StageOperations operations;
    double passes_s = 0, computes_s = 0, operations_s = 0;
    std::vector<Sent> sent;
  };
  /// A copy of a unit, which one end of the model sends to the other.
  struct Copy {
    Copy(FluidClock& clock, int from, const Transfer& message)
        : sender(from), transfer(message), ready(clock), arrived(clock) {}
    int sender;
    Transfer transfer;
    Counter ready, arrived;
  };

  const Stage& at(int stage) const { return stages_[static_cast<std::size_t>(stage)]; }
  void add_channels(const NetworkModel& network);
  Channel& channel(const pipeline::Border& border);

  Process steps(Stage& stage);
  Process send(Channel& channel, Counter& sent);
  /// co_await: the stage executes these items.
  Counter::Reach execute(Stage& stage, zero::StepItems items);
  Process execute_items(Stage& stage, zero::StepItems items);
  static double seconds_of(const Stage& stage, const zero::StepItem& item);
  void start(Stage& stage, const zero::StepItem& item);
  /// co_await: the stage, which is an end of the model, exchanges these copies.
  Counter::Reach exchange(Stage& stage, std::deque<Copy>& copies);
  Process exchange_copies(Stage& stage, std::deque<Copy>& copies, std::size_t step);

  const PipelinePlan& plan_;
  const StagePlaces& places_;
  FluidClock clock_;
  PipelineResources resources_;
  Counter numbers_;  // starts of exchanges of numbers
  std::deque<Stage> stages_;
  std::array<std::deque<Channel>, 2> channels_;  // by kind and receiving part; the last one is the skip connection's
  std::deque<Copy> gradient_copies_, parameter_copies_;
  std::size_t steps_ = 0, ended_ = 0;
  double begin_s_ = 0, last_pass_s_ = 0, end_s_ = 0;
};

}  // namespace shoal::plan
