// SPDX-License-Identifier: Apache-2.0
// Records steps of pipelines: borders are sent as pipeline::Runner does that, and what a stage computes and exchanges among
// its own ranks is that of zero::StepSchedule.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "plan/pipeline/pipeline_copies.hpp"
#include "plan/pipeline/stage_schedule.hpp"
#include "plan/simgrid/recorder.hpp"
#include "shoal/base/error.hpp"
#include "shoal/comm/communicator.hpp"
#include "shoal/pipeline/program.hpp"
#include "shoal/plan/recording.hpp"

namespace shoal::plan {

namespace {

using enum pipeline::Action::Kind;
using pipeline::Action;

constexpr int copy_tag = comm::end_of_message_tags;  // borders have those below

/// The lanes of borders ([Note: lanes] in recording.hpp): one for each kind and part of the stage that receives them, and
/// one for each kind of a skip connection; to send and to receive.
int channels_of(const pipeline::ScheduleShape& shape) { return 2 * (shape.parts + (shape.skip ? 1 : 0)); }
struct Lanes {
  int sending = 0, receiving = 0;
};
Lanes lanes_of(const pipeline::Border& border, const pipeline::ScheduleShape& shape) {
  const int part = border.skip ? shape.parts : static_cast<int>(pipeline::part_of_stage(shape, border));
  const int channel = 2 * part + (border.kind == forward ? 0 : 1);
  return {1 + channel, 1 + channels_of(shape) + channel};
}

/// What all stages of a run have in common.
struct Run {
  const PipelinePlan& plan;
  std::vector<pipeline::Buffers> buffers;  // by stage
  std::vector<CopyBytes> copies;           // messages between the last stage and the first one
  std::vector<RecordedMessage>& messages;  // of all stages
};

class StageRecorder {
 public:
  /// schedule must outlive this object's use.
  StageRecorder(const Run& run, std::size_t stage, StageSchedule& schedule, double update_s)
      : run_(run),
        stage_(stage),
        update_s_(update_s),
        program_(program_of_stage()),
        schedule_(schedule),
        execution_(schedule.messages()) {
    clock_.set_listener(recorder_);
    add_copies();
  }

  void step() {
    for (std::size_t action = 0; action < program_.steps.size(); ++action) {
      const pipeline::Step& step = program_.steps[action];
      for (const pipeline::Call& call : step.before) start(call);
      for (const auto& place : {step.in, step.out, step.skip_in, step.skip_out}) {
        if (place) use(*place);
      }
      execute(schedule_.pass(action), schedule_.use_seconds(schedule_.part_of(action)));
    }
    for (const pipeline::Call& call : program_.after) start(call);
    execute(schedule_.schedule().end_of_step());
  }

  void finish() {
    execute(schedule_.schedule().wait_for_parameters());
    for (const auto& [place, message] : in_flight_) recorder_.waits_for_message(message);
    in_flight_.clear();
  }

  Recorder& recorder() { return recorder_; }

 private:
  using PlaceKey = std::tuple<bool, Action::Kind, std::size_t, std::size_t, bool>;

  void execute(const zero::StepItems& items, const UseSeconds& use_s = {}) {
    for (const zero::StepItem& item : items) {
      if (item.kind == zero::StepItem::Kind::exchange) {
        exchange(item.message == zero::MessageKind::copied_gradients ? gradient_copies_ : parameter_copies_);
      } else {
        execution_.execute(item, use_s, update_s_, clock_);
      }
    }
  }

  bool is_first() const { return stage_ == 0; }
  bool is_last() const { return stage_ + 1 == run_.plan.parts.size(); }

  pipeline::Program program_of_stage() const {
    pipeline::ScheduleShape shape = run_.plan.shape;
    shape.stage = static_cast<int>(stage_);
    return pipeline::program_of(run_.plan.lists, shape, run_.buffers, pipeline::Order::early);
  }

  void add_copies() {
    const int last = run_.plan.shape.stages - 1;
    if (!is_first() && !is_last()) return;
    for (const CopyBytes& copy : run_.copies) {
      gradient_copies_.push_back(add_message({is_last(), is_last() ? 0 : last, 0, 0, copy_tag, copy.gradient}));
      parameter_copies_.push_back(add_message({is_first(), is_last() ? 0 : last, 0, 0, copy_tag, copy.parameters}));
    }
  }

  std::size_t add_message(RecordedMessage message) {
    run_.messages.push_back(std::move(message));
    return run_.messages.size() - 1;
  }

  void start(const pipeline::Call& call) {
    const auto [found, is_new] = message_of_.try_emplace(&call, 0);
    if (is_new) {
      const Lanes lanes = lanes_of(call.border, run_.plan.shape);
      const int tag = pipeline::tag_of(call.border, pipeline::parts_of_model(run_.plan.shape));
      found->second = add_message({call.sends,
                                   call.other,
                                   call.sends ? lanes.sending : lanes.receiving,
                                   call.sends ? lanes.receiving : lanes.sending,
                                   tag,
                                   {run_.plan.border_bytes}});
    }
    recorder_.starts_message(found->second);
    in_flight_[key_of(call.place)] = found->second;
  }

  void use(const pipeline::Place& place) {
    const auto found = in_flight_.find(key_of(place));
    if (found == in_flight_.end()) return;
    recorder_.waits_for_message(found->second);
    in_flight_.erase(found);
  }

  static PlaceKey key_of(const pipeline::Place& place) {
    return {place.sent, place.kind, place.part, place.buffer, place.skip};
  }

  /// Messages that are awaited as soon as they have started.
  void exchange(const std::vector<std::size_t>& messages) {
    for (const std::size_t message : messages) {
      recorder_.starts_message(message);
      recorder_.waits_for_message(message);
    }
  }

  const Run& run_;
  std::size_t stage_;
  double update_s_;
  pipeline::Program program_;
  std::vector<std::size_t> gradient_copies_, parameter_copies_;

  StageSchedule& schedule_;
  TimedExecution execution_;
  RankClock clock_{0};
  Recorder recorder_;
  std::map<const pipeline::Call*, std::size_t> message_of_;
  std::map<PlaceKey, std::size_t> in_flight_;  // messages
};

/// Moves a stage's actions into the recording of all stages.
void add_stage(Recording& recording, Recorder& recorder, const pipeline::ScheduleShape& shape) {
  std::vector<RecordedAction> actions = recorder.with_lanes(2 * channels_of(shape));
  for (RecordedAction& action : actions) {
    const bool of_operation = action.kind == RecordedAction::Kind::start || action.kind == RecordedAction::Kind::wait;
    if (of_operation) action.number += recording.operations.size();
  }
  recording.actions.push_back(std::move(actions));
  recording.operations.insert(recording.operations.end(), recorder.operations().begin(), recorder.operations().end());
  recording.lanes = std::max(recording.lanes, recorder.lanes());
}

}  // namespace

Recording record(const zero::EngineOptions& options, const PipelinePlan& plan, const Cluster& cluster,
                 const NetworkModel& network, const Arithmetic& arithmetic, std::size_t steps) {
  require_input(!network.queued, measured_with_nccl);
  const int ranks = cluster.ranks(), data_ranks = ranks / plan.shape.stages;
  require(data_ranks * plan.shape.stages == ranks, plan.shape.stages, " stages on ", ranks, " ranks");
  const CollectiveCosts collectives(network, cluster);
  Recording recording;
  const Run run{plan, pipeline::buffers_of(plan.lists, plan.shape), copies_of(options, data_ranks), recording.messages};
  std::vector<StageSchedule> stages = stage_schedules(options, plan, cluster, collectives, arithmetic);
  const std::vector<double> update_s = update_seconds(stages, arithmetic);
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    StageRecorder recorder(run, stage, stages[stage], update_s[stage]);
    for (std::size_t step = 0; step < steps; ++step) recorder.step();
    recorder.finish();
    add_stage(recording, recorder.recorder(), plan.shape);
  }
  return recording;
}

}  // namespace shoal::plan
