// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/engine.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "shoal/base/error.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/device/queue.hpp"
#include "shoal/kernels/storage.hpp"

namespace shoal::zero {

namespace {

constexpr std::size_t widened_elements = std::size_t{1} << 16U;  // small enough to stay in a cache

/// Factor that brings the norm to the limit, as in PyTorch's clip_grad_norm_, with its guard against a norm of zero.
float clip_factor(double norm, double limit) {
  return limit == 0 ? 1.0F : static_cast<float>(std::min(1.0, limit / (norm + 1e-6)));
}

/// With its parts, even if they are one.
EngineOptions in_parts(EngineOptions options) {
  options.parts = parts_of(options);
  return options;
}

}  // namespace

std::vector<model::Part> parts_of(const EngineOptions& options) {
  return options.parts.empty() ? std::vector<model::Part>(1) : options.parts;
}

AccumulationPlan accumulation_of(const EngineOptions& options, int ranks) {
  return {options.micro_batches, ranks, ranks > 1 && stage_of(options.zero).shards_gradients,
          options.gradients.collectives == comm::Collectives::native};
}

Engine::Engine(const EngineOptions& options, const RankGroups& groups, Memory& memory)
    : options_(in_parts(options)),
      units_(model::layout(options.model)),
      accumulation_(accumulation_of(options, groups.ranks)),
      optimizer_(optim::make(options.optimizer)),
      layouts_(shard_layouts(units_, options.zero, groups, options.parts)),
      states_(units_, layouts_, options.dtype,
              options.capacity.training ? optimizer_->moment_names() : std::vector<std::string>{}, groups, memory),
      copies_(units_, layouts_, groups, options.capacity.training ? std::optional(options.gradients.dtype) : std::nullopt,
              memory),
      passes_(options_.model, options_.capacity, options_.parts, options_.order, gathers_units(layouts_)) {
  if (options_.capacity.training) {
    gradients_ = std::make_unique<Gradients>(units_, layouts_, sweeps_of(options_.parts, units_), accumulation_, groups,
                                             options_.gradients, memory);
    gradients_->keep_in_shards(copies_.any());
    if (options_.gradients.dtype != DType::f32) {
      widened_ = memory.take<float>(Kind::buffers, widened_elements, "gradients in fp32");
    }
  }
  parameters_ = std::make_unique<Parameters>(units_, layouts_, states_, passes_.take_orders(), groups,
                                             GatherOptions{options_.zero, options_.gradients.bucket_elements,
                                                           options_.gradients.overlap, options_.gradients.collectives},
                                             memory);
  for (const model::Part& part : options_.parts) {
    parts_.push_back(
        {model::make(options_.model, options_.dtype, capacity_of(part), options_.seed, memory, *this), Slots(part)});
  }
  losses_ = device::Cells(memory, accumulation_.turns(), "losses");
  pieces_.emplace(memory, "pieces of files");
}

model::Capacity Engine::capacity_of(const model::Part& part) const {
  model::Capacity capacity = options_.capacity;
  capacity.micro_batches = accumulation_.turns();
  capacity.part = part;
  return capacity;
}

/// Begins an order of uses with this pass, or goes on with the one before.
void Engine::begin_pass(const PassOfPart& pass) {
  if (const auto order = passes_.begin(pass)) parameters_->begin(*order);
}

std::vector<kernels::Product> Engine::products() const {
  std::vector<kernels::Product> all;
  for (const PartOfModel& part : parts_) {
    const std::vector<kernels::Product>& own = part.model->products();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

std::vector<std::string> Engine::prepare() {
  std::vector<std::string> lines;
  for (PartOfModel& part : parts_) {
    for (std::string& line : part.model->prepare()) {
      if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(std::move(line));
    }
  }
  return lines;
}

void Engine::initialize(std::uint64_t seed) {
  states_.initialize(seed);
  rebuild_parameters();
}

void Engine::rebuild_parameters() {
  states_.round_masters();
  start_all_gather();
}

void Engine::set_gradient_groups(std::size_t groups) {
  groups_ = groups;
  gradients_->keep_in_shards(groups > 1 || copies_.any());
}

void Engine::weigh_squares(std::int64_t updates, double beta2) {
  const double correction = 1 - std::pow(beta2, static_cast<double>(updates));  // as Adam corrects its second moment
  gradients_->weights().resample(
      static_cast<std::uint64_t>(updates), [&](int unit) { return states_.second_moment_shard(unit); }, correction,
      options_.optimizer.epsilon);
}

void Engine::forward(std::size_t part, std::size_t turn, const model::MicroBatch& batch, const model::Flow& flow,
                     bool whole) {
  PartOfModel& own = parts_.at(part);
  const std::size_t slot = own.slots.take(turn, whole);
  begin_pass({part, false, whole});
  const auto predictions = static_cast<double>(groups_ * options_.micro_batches * own.model->predictions(batch));
  const trace::Region region(trace::Level::steps, trace::Kind::phase, "forward");
  own.model->forward(slot, batch, flow, static_cast<float>(loss_scale_ / predictions), losses_.cell(turn));
}

void Engine::backward(std::size_t part, std::size_t turn, const model::Flow& flow) {
  PartOfModel& own = parts_.at(part);
  const std::size_t slot = own.slots.release(turn);
  begin_pass({part, true, own.slots.is_whole(slot)});
  const trace::Region region(trace::Level::steps, trace::Kind::phase, "backward");
  own.model->backward(slot, flow);
}

void Engine::measure() {
  gradients_->measure_norm();
  parameters_->fetch_errors();
  losses_.fetch();
  {
    // If calls only enqueue work, most of the step's time passes here, and it is no time of "clip".
    std::optional<trace::Region> waiting;
    if (!device::immediate()) waiting.emplace(trace::Level::steps, trace::Kind::phase, "device");
    device::wait_for_queue();
  }
  gradients_->share_squares();
  parameters_->trace_errors();
}

double Engine::square_of_turn(std::size_t turn) const {
  return gradients_->square_of_turn(turn) / (loss_scale_ * loss_scale_);
}

Norm Engine::norm() {
  Norm norm = gradients_->norm();
  norm.value /= loss_scale_;
  norm.square /= loss_scale_ * loss_scale_;
  return norm;
}

void Engine::update(const Norm& norm, const optim::Optimizer::Step& step) {
  {
    const trace::Region region(trace::Level::steps, trace::Kind::phase, "publish");
    gradients_->wait_for_gather();
  }
  const trace::Region region(trace::Level::steps, trace::Kind::phase, "optimizer");
  optim::Optimizer::Step clipped = step;
  clipped.gradient_scale = clip_factor(norm.value, options_.grad_clip) / static_cast<float>(loss_scale_);
  for (std::size_t u = 0; u < units_.size(); ++u) update_unit(static_cast<int>(u), clipped);
}

void Engine::publish() {
  const trace::Region region(trace::Level::steps, trace::Kind::phase, "publish");
  start_all_gather();
}

void Engine::start_all_gather() {
  parameters_->wait_for_parameters();  // the one before may still read what copies get now
  copies_.renew(states_);
  parameters_->start_all_gather();
}

void Engine::finish_gradients() {
  gradients_->finish_step();
  copies_.add_gradients(*gradients_);
}

void Engine::update_unit(int unit, const optim::Optimizer::Step& step) {
  const Range own = states_.layout(unit).optimizer;
  const DType kept = gradients_->dtype();
  const bool decay_1d = options_.optimizer.decay_1d;
  if (kept == DType::f32) {
    const Span<const std::byte> bytes = gradients_->reduced(unit, own);
    states_.step(unit, own, {reinterpret_cast<const float*>(bytes.data()), own.size()}, *optimizer_, step, decay_1d);
    return;
  }
  for (std::size_t begin = own.begin; begin < own.end; begin += widened_.size()) {
    const Range part = intersection(own, {begin, begin + widened_.size()});
    kernels::widen(kept, part.size(), gradients_->reduced(unit, part).data(), widened_.data());
    states_.step(unit, part, widened_.first(part.size()), *optimizer_, step, decay_1d);
  }
}

void Engine::evaluate(std::size_t part, const model::MicroBatch& batch, const model::Flow& flow) {
  PartOfModel& own = parts_.at(part);
  require(own.slots.all_free() && passes_.between_steps(),
          "an evaluation comes between the forward and the backward pass of a turn");
  parameters_->begin(passes_.evaluation(part));
  own.model->evaluate(batch, flow, losses_.cell(0));
}

double Engine::evaluated_loss() {
  losses_.fetch();
  device::wait_for_queue();
  return losses_.values().front();
}

double Engine::evaluate(const model::MicroBatch& batch) {
  evaluate(0, batch, {});
  return evaluated_loss();
}

const void* Engine::acquire(int unit) { return parameters_->acquire(unit); }
void Engine::release(int unit) { parameters_->release(unit); }
float* Engine::gradient(int unit) { return gradients_->of(unit); }
void Engine::gradient_complete(int unit) { gradients_->complete(unit); }

}  // namespace shoal::zero
