// SPDX-License-Identifier: Apache-2.0
#include "plan/pipeline/pipeline_run.hpp"

#include <algorithm>
#include <utility>

#include "shoal/base/error.hpp"

namespace shoal::plan {

namespace {

using enum pipeline::Action::Kind;
using pipeline::Border;

/// The pool of send buffers for borders like this one.
std::size_t pool_of(const Border& border) { return (border.kind == forward ? 0U : 1U) + (border.skip ? 2U : 0U); }

}  // namespace

PipelineRun::PipelineRun(const PipelinePlan& plan, const StagePlaces& places, const NetworkModel& network,
                         const Arithmetic& arithmetic, std::vector<StageSchedule>& schedules,
                         const std::vector<CopyBytes>& copies)
    : plan_(plan), places_(places), resources_(clock_, places, network, arithmetic.speedup), numbers_(clock_) {
  require(places.stages() > 1, "a pipeline of one stage");
  const std::vector<double> update_s = update_seconds(schedules, arithmetic);
  for (int s = 0; s < places.stages(); ++s) {
    const auto index = static_cast<std::size_t>(s);
    Stage& stage = stages_.emplace_back(clock_, resources_, s, numbers_);
    stage.schedule = &schedules[index];
    stage.update_s = update_s[index];
    pipeline::ScheduleShape shape = plan.shape;
    shape.stage = s;
    stage.uses = pipeline::uses_of(plan.lists[index], shape);
  }
  add_channels(network);
  const int last = places.stages() - 1;
  for (const CopyBytes& copy : copies) {
    gradient_copies_.emplace_back(clock_, last, places.transfer(last, 0, copy.gradient.front(), network));
    parameter_copies_.emplace_back(clock_, 0, places.transfer(0, last, copy.parameters.front(), network));
  }
}

void PipelineRun::add_channels(const NetworkModel& network) {
  const std::vector<pipeline::Buffers> buffers = pipeline::buffers_of(plan_.lists, plan_.shape);
  const int parts = pipeline::parts_of_model(plan_.shape);
  for (const pipeline::Action::Kind kind : {forward, backward}) {
    std::deque<Channel>& channels = channels_[kind == forward ? 0 : 1];
    for (int i = 0; i <= parts; ++i) {
      const bool skip = i == parts;
      const Border border{kind, skip ? (kind == forward ? parts - 1 : 0) : i, 0, skip};
      const int from = pipeline::sender(plan_.shape, border), to = pipeline::receiver(plan_.shape, border);
      Channel& channel = channels.emplace_back(clock_);
      // No other part sends to the ends of the model.
      const bool exists = skip ? plan_.shape.skip : i != (kind == forward ? 0 : parts - 1);
      if (!exists) continue;
      channel.to = &stages_[static_cast<std::size_t>(to)];
      channel.transfer = places_.transfer(from, to, plan_.border_bytes, network);
      channel.buffers =
          buffers[static_cast<std::size_t>(to)].received(border, skip ? 0 : pipeline::part_of_stage(plan_.shape, border));
      stages_[static_cast<std::size_t>(from)].send_buffers[pool_of(border)] =
          buffers[static_cast<std::size_t>(from)].sent(border);
    }
  }
}

PipelineRun::Channel& PipelineRun::channel(const Border& border) {
  std::deque<Channel>& channels = channels_[border.kind == forward ? 0 : 1];
  return border.skip ? channels.back() : channels[static_cast<std::size_t>(border.part)];
}

void PipelineRun::execute(std::size_t steps) {
  steps_ = steps;
  for (Stage& stage : stages_) this->steps(stage);
  clock_.run();
  require(ended_ == stages_.size(), ended_, " of ", stages_.size(), " stages have ended; the others wait for ever");
}

Process PipelineRun::steps(Stage& stage) {
  for (std::size_t step = 0; step < steps_; ++step) {
    stage.begun.add();
    stage.computes_s = stage.operations_s = 0;
    stage.sent.assign(static_cast<std::size_t>(places_.data_ranks()), {});
    for (std::size_t action = 0; action < stage.uses.size(); ++action) {
      const pipeline::Use& use = stage.uses[action];
      for (const Border& border : use.reads) {
        co_await channel(border).arrived.reaches(step * plan_.shape.turns + border.turn + 1);
      }
      for (const Border& border : use.makes) {
        std::deque<Counter>& sends = stage.sends[pool_of(border)];
        if (sends.size() < stage.send_buffers[pool_of(border)]) continue;
        co_await sends.front().reaches(1);
        sends.pop_front();
      }
      co_await execute(stage, stage.schedule->pass(action));
      for (const Border& border : use.releases) channel(border).released.add();
      for (const Border& border : use.makes) send(channel(border), stage.sends[pool_of(border)].emplace_back(clock_));
    }
    stage.passes_s = stage.computes_s;
    last_pass_s_ = std::max(last_pass_s_, clock_.now_s());
    co_await execute(stage, stage.schedule->schedule().end_of_step());
    if (step + 2 == steps_) begin_s_ = std::max(begin_s_, clock_.now_s());
  }
  end_s_ = std::max(end_s_, clock_.now_s());
  ++ended_;
}

/// A border is sent when the one before it has arrived, and there is a buffer for it. A rank starts to receive those of a
/// step when it begins the step.
Process PipelineRun::send(Channel& channel, Counter& sent) {
  const std::size_t number = channel.made++;
  co_await channel.to->begun.reaches(number / plan_.shape.turns + 1);
  co_await channel.arrived.reaches(number);
  if (number >= channel.buffers) co_await channel.released.reaches(number + 1 - channel.buffers);
  const PipelineResources::Used links = resources_.links(channel.transfer);
  co_await clock_.delay(channel.transfer.latency_s);
  co_await clock_.use(links, channel.transfer.bytes_s);
  channel.arrived.add();
  sent.add();
}

Counter::Reach PipelineRun::execute(Stage& stage, zero::StepItems items) {
  execute_items(stage, std::move(items));
  return stage.executed.reaches(++stage.executions);
}

/// The stage computes for seconds_of() each item; before that it waits, if the item is a wait, and after that it starts a
/// message.
Process PipelineRun::execute_items(Stage& stage, zero::StepItems items) {
  using Kind = zero::StepItem::Kind;
  for (const zero::StepItem& item : items) {
    if (item.kind == Kind::exchange) {
      co_await exchange(stage, item.message == zero::MessageKind::copied_gradients ? gradient_copies_ : parameter_copies_);
      continue;
    }
    double seconds = seconds_of(stage, item);
    if (item.kind == Kind::wait) {
      const std::shared_ptr<StageOperations::Operation> oldest = stage.operations.take_oldest(item.message);
      co_await oldest->arrived.reaches(1);
      seconds = oldest->after_s;
    }
    const double begin = clock_.now_s();
    co_await clock_.use(resources_.processors(stage.number), seconds, resources_.fastest());
    stage.computes_s += clock_.now_s() - begin;
    if (item.kind == Kind::start) start(stage, item);
  }
  stage.executed.add();
}

double PipelineRun::seconds_of(const Stage& stage, const zero::StepItem& item) {
  switch (item.kind) {
    case zero::StepItem::Kind::compute:
      return stage.schedule->use_seconds(item.part)[static_cast<std::size_t>(item.pass)][item.number];
    case zero::StepItem::Kind::update: return stage.update_s;
    case zero::StepItem::Kind::start: return stage.schedule->messages().of(item).before_s;
    case zero::StepItem::Kind::wait:
    case zero::StepItem::Kind::exchange: break;
  }
  return 0;
}

void PipelineRun::start(Stage& stage, const zero::StepItem& item) {
  const Cost& cost = stage.schedule->messages().of(item);
  stage.operations_s += cost.total_s();
  add_sent(stage.sent, operation_of(item.message), cost, static_cast<std::size_t>(places_.rank(stage.number, 0)));
  stage.operations.start(item.message, cost, places_.stages());
}

Counter::Reach PipelineRun::exchange(Stage& stage, std::deque<Copy>& copies) {
  exchange_copies(stage, copies, stage.exchanges / 2);  // gradients and parameters in each step
  return stage.exchanged.reaches(++stage.exchanges);
}

Process PipelineRun::exchange_copies(Stage& stage, std::deque<Copy>& copies, std::size_t step) {
  for (Copy& copy : copies) {
    copy.ready.add();
    co_await copy.ready.reaches(2 * (step + 1));
    if (stage.number == copy.sender) {
      const PipelineResources::Used links = resources_.links(copy.transfer);
      co_await clock_.delay(copy.transfer.latency_s);
      co_await clock_.use(links, copy.transfer.bytes_s);
      copy.arrived.add();
    }
    co_await copy.arrived.reaches(step + 1);
  }
  stage.exchanged.add();
}

}  // namespace shoal::plan
