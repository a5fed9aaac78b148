// SPDX-License-Identifier: Apache-2.0
#include "shoal/pipeline/runner.hpp"

#include <cstdint>
#include <limits>
#include <utility>

#include "shoal/base/heartbeat.hpp"
#include "shoal/base/trace.hpp"

namespace shoal::pipeline {

namespace {

/// The trace has 16 bits for a micro-batch's number. One that does not fit is left out, rather than taken for another.
std::int16_t number_in_trace(std::size_t micro_batch) {
  return micro_batch <= std::numeric_limits<std::int16_t>::max() ? static_cast<std::int16_t>(micro_batch) : std::int16_t{-1};
}

}  // namespace

Runner::Runner(comm::Communicator* group, Lists training, const ScheduleShape& shape, std::size_t border_bytes,
               Memory& memory)
    : lists_(std::move(training)),
      shape_(shape),
      buffers_(buffers_of(lists_, shape)),
      ports_(group, shape, buffers(), border_bytes, memory) {}

void Runner::train(Stage& stage) {
  if (!training_) training_ = program_of(lists_, shape_, buffers_, ports_.order());
  run(*training_, stage);
}

void Runner::evaluate(std::size_t turns, Stage& stage) {
  if (!evaluation_ || evaluation_->shape.turns != turns) {
    ScheduleShape shape = shape_;
    shape.turns = turns;
    evaluation_ = program_of(evaluation_lists(shape), shape, buffers_, ports_.order());
  }
  run(*evaluation_, stage);
}

void Runner::run(const Program& program, Stage& stage) {
  const std::int16_t micro_before = trace::micro();
  const auto use = [&](const std::optional<Place>& place) { return place ? ports_.use(*place) : Span<std::byte>{}; };
  for (const Step& step : program.steps) {
    const Action& action = step.action;
    heartbeat::beat();
    trace::set_micro(number_in_trace(stage.micro_batch(action.turn)));
    const trace::OnBehalfOf unit(stage.first_unit(action.part));
    const bool is_forward = action.kind == Action::Kind::forward;
    for (const Call& call : step.before) ports_.start(call);
    const Borders borders{use(step.in), use(step.out), use(step.skip_in), use(step.skip_out)};
    if (is_forward) {
      stage.forward(action.part, action.turn, borders);
    } else {
      stage.backward(action.part, action.turn, borders);
    }
  }
  for (const Call& call : program.after) ports_.start(call);
  trace::set_micro(micro_before);
}

}  // namespace shoal::pipeline
