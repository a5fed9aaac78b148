// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/engine.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "shoal/base/error.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/device/queue.hpp"
#include "shoal/kernels/storage.hpp"
#include "shoal/zero/state_places.hpp"
#include "zero/gradients.hpp"
#include "zero/parameters.hpp"
#include "zero/passes.hpp"
#include "zero/slots.hpp"
#include "zero/tied_copies.hpp"

namespace shoal::zero {

namespace {

constexpr std::size_t widened_elements = std::size_t{1} << 16U;  // small enough to stay in a cache

/// Factor that brings the norm to the limit, as in PyTorch's clip_grad_norm_, with its guard against a norm of zero.
float clip_factor(double norm, double limit) {
  return limit == 0 ? 1.0F : static_cast<float>(std::min(1.0, limit / (norm + 1e-6)));
}

std::vector<Where> gradient_places(const std::vector<StatePlaces>& places) {
  std::vector<Where> result;
  for (const StatePlaces& of_unit : places) result.push_back(of_unit.gradients);
  return result;
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

/// The states and what moves them; the models of all parts take units and deliver gradients here.
struct Engine::Members final : model::UnitAccess {
  Members(const EngineOptions& how, const RankGroups& rank_groups, Memory& memory);

  const void* acquire(int unit) override { return parameters->acquire(unit); }
  void release(int unit) override { parameters->release(unit); }
  float* gradient(int unit) override { return gradients->of(unit); }
  void gradient_complete(int unit) override { gradients->complete(unit); }

  void begin_pass(const PassOfPart& pass);
  void start_all_gather();
  void update_tile(const Tile& tile, const optim::Optimizer::Step& step);
  model::Capacity capacity_of(const model::Part& part) const;

  struct PartOfModel {
    std::unique_ptr<model::Model> model;
    Slots slots;
  };

  EngineOptions options;
  std::vector<model::UnitLayout> units;
  AccumulationPlan accumulation;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::vector<ShardLayout> layouts;
  std::vector<StatePlaces> places;  // by unit
  States states;
  TiedCopies copies;
  Passes passes;                         // whose orders of uses Parameters has
  std::unique_ptr<Gradients> gradients;  // null if nothing is trained
  std::unique_ptr<Parameters> parameters;
  Span<float> widened;                        // in fp32, a part of a gradient that is kept in 16 bits
  device::Cells losses;                       // of this rank's micro-batches in a step; an evaluation uses the first one
  std::optional<device::PieceMemory> pieces;  // of files and initial values
  double loss_scale = 1;
  std::size_t groups = 1;
  std::vector<PartOfModel> parts;  // as EngineOptions::parts
};

Engine::Members::Members(const EngineOptions& how, const RankGroups& rank_groups, Memory& memory)
    : options(in_parts(how)),
      units(model::layout(how.model)),
      accumulation(accumulation_of(how, rank_groups.ranks)),
      optimizer(optim::make(how.optimizer)),
      layouts(shard_layouts(units, how.zero, rank_groups, how.parts)),
      places(state_places(how.offload, stage_of(how.zero), layouts)),
      states(units, layouts, how.dtype, how.capacity.training ? optimizer->moment_names() : std::vector<std::string>{},
             rank_groups, memory, {how.gradients.collectives, how.sends_masters}, places),
      copies(units, layouts, rank_groups, how.capacity.training ? std::optional(how.gradients.dtype) : std::nullopt, memory),
      passes(options.model, options.capacity, options.parts, options.order, gathers_units(layouts)) {
  if (options.capacity.training) {
    gradients = std::make_unique<Gradients>(units, layouts, sweeps_of(options.parts, units), accumulation, rank_groups,
                                            options.gradients, memory, gradient_places(places));
    gradients->keep_in_shards(copies.any());
    if (options.gradients.dtype != DType::f32) {
      widened = memory.take<float>(Kind::buffers, widened_elements, "gradients in fp32");
    }
  }
  parameters = std::make_unique<Parameters>(units, layouts, states, passes.take_orders(), rank_groups,
                                            GatherOptions{options.zero, options.gradients.bucket_elements,
                                                          options.gradients.overlap, options.gradients.collectives},
                                            memory);
  for (const model::Part& part : options.parts) {
    parts.push_back(
        {model::make(options.model, options.dtype, capacity_of(part), options.seed, memory, *this), Slots(part)});
  }
  losses = device::Cells(memory, accumulation.turns(), "losses");
  pieces.emplace(memory, "pieces of files");
}

model::Capacity Engine::Members::capacity_of(const model::Part& part) const {
  model::Capacity capacity = options.capacity;
  capacity.micro_batches = accumulation.turns();
  capacity.part = part;
  return capacity;
}

/// Begins an order of uses with this pass, or goes on with the one before.
void Engine::Members::begin_pass(const PassOfPart& pass) {
  if (const auto order = passes.begin(pass)) parameters->begin(*order);
}

void Engine::Members::start_all_gather() {
  parameters->wait_for_parameters();  // the one before may still read what copies get now
  copies.renew(states);
  parameters->start_all_gather();
}

void Engine::Members::update_tile(const Tile& tile, const optim::Optimizer::Step& step) {
  const int unit = tile.unit;
  const Range own = tile.elements;
  const DType kept = gradients->dtype();
  const bool decay_1d = options.optimizer.decay_1d;
  if (kept == DType::f32) {
    const Span<const std::byte> bytes = gradients->reduced(unit, own);
    states.step(unit, own, {reinterpret_cast<const float*>(bytes.data()), own.size()}, *optimizer, step, decay_1d);
    return;
  }
  for (std::size_t begin = own.begin; begin < own.end; begin += widened.size()) {
    const Range part = intersection(own, {begin, begin + widened.size()});
    kernels::widen(kept, part.size(), gradients->reduced(unit, part).data(), widened.data());
    states.step(unit, part, widened.first(part.size()), *optimizer, step, decay_1d);
  }
}

Engine::Engine(const EngineOptions& options, const RankGroups& groups, Memory& memory)
    : members_(std::make_unique<Members>(options, groups, memory)) {}
Engine::~Engine() = default;

States& Engine::states() { return members_->states; }
model::Model& Engine::model(std::size_t part) { return *members_->parts.at(part).model; }
const std::vector<model::UnitLayout>& Engine::units() const { return members_->units; }
int Engine::first_unit(std::size_t part) const { return static_cast<int>(members_->options.parts.at(part).units.begin); }
const AccumulationPlan& Engine::accumulation() const { return members_->accumulation; }
const std::vector<Bucket>& Engine::buckets() const { return members_->gradients->buckets(); }
void Engine::wait_for_parameters() { members_->parameters->wait_for_parameters(); }

std::vector<NamedSlice> Engine::residual_slices() const {
  return members_->gradients ? members_->gradients->residual_slices() : std::vector<NamedSlice>{};
}

std::string Engine::residual_layout() const {
  return members_->gradients ? members_->gradients->residual_layout() : std::string();
}

void Engine::scale_losses(double factor) {
  if (members_->gradients && factor != members_->loss_scale) {
    members_->gradients->scale_residuals(factor / members_->loss_scale);
  }
  members_->loss_scale = factor;
}

void Engine::read_residuals_of(double loss_scale) { members_->loss_scale = loss_scale; }
Span<std::byte> Engine::gradient_shard(int unit, Range range) { return members_->gradients->shard(unit, range); }
void Engine::start_gradient_gather() { members_->gradients->start_gather(); }
double Engine::loss(std::size_t turn) const { return members_->losses.values()[turn]; }

void Engine::discard_gradients() {
  members_->states.forget_prefetched();
  members_->gradients->wait_for_gather();
  members_->gradients->reset_residuals();
}

std::vector<kernels::Product> Engine::products() const {
  std::vector<kernels::Product> all;
  for (const Members::PartOfModel& part : members_->parts) {
    const std::vector<kernels::Product>& own = part.model->products();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

std::vector<std::string> Engine::prepare() {
  std::vector<std::string> lines;
  for (Members::PartOfModel& part : members_->parts) {
    for (std::string& line : part.model->prepare()) {
      if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(std::move(line));
    }
  }
  return lines;
}

void Engine::initialize(std::uint64_t seed) {
  members_->states.initialize(seed);
  rebuild_parameters();
}

void Engine::rebuild_parameters() {
  members_->states.round_masters();
  members_->start_all_gather();
}

void Engine::set_gradient_groups(std::size_t groups) {
  members_->groups = groups;
  members_->gradients->keep_in_shards(groups > 1 || members_->copies.any());
}

void Engine::weigh_squares(std::int64_t updates, double beta2) {
  const double correction = 1 - std::pow(beta2, static_cast<double>(updates));  // as Adam corrects its second moment
  members_->gradients->weights().resample(
      static_cast<std::uint64_t>(updates), [&](int unit) { return members_->states.second_moment_shard(unit); }, correction,
      members_->options.optimizer.epsilon);
}

void Engine::forward(std::size_t part, std::size_t turn, const model::MicroBatch& batch, const model::Flow& flow,
                     bool whole) {
  Members::PartOfModel& own = members_->parts.at(part);
  const std::size_t slot = own.slots.take(turn, whole);
  members_->begin_pass({part, false, whole});
  const auto predictions =
      static_cast<double>(members_->groups * members_->options.micro_batches * own.model->predictions(batch));
  const trace::Region region(trace::Level::steps, trace::Kind::phase, "forward");
  own.model->forward(slot, batch, flow, static_cast<float>(members_->loss_scale / predictions), members_->losses.cell(turn));
}

void Engine::backward(std::size_t part, std::size_t turn, const model::Flow& flow) {
  Members::PartOfModel& own = members_->parts.at(part);
  const std::size_t slot = own.slots.release(turn);
  members_->begin_pass({part, true, own.slots.is_whole(slot)});
  const trace::Region region(trace::Level::steps, trace::Kind::phase, "backward");
  own.model->backward(slot, flow);
}

void Engine::measure() {
  members_->gradients->measure_norm();
  members_->parameters->fetch_errors();
  members_->losses.fetch();
  {
    // If calls only enqueue work, most of the step is spent in this wait, so it is a phase of its own instead of "clip".
    std::optional<trace::Region> waiting;
    if (!device::immediate()) waiting.emplace(trace::Level::steps, trace::Kind::phase, "device");
    device::wait_for_queue();
  }
  members_->gradients->share_squares();
  members_->parameters->trace_errors();
}

double Engine::square_of_turn(std::size_t turn) const {
  return members_->gradients->square_of_turn(turn) / (members_->loss_scale * members_->loss_scale);
}

Norm Engine::norm() {
  Norm norm = members_->gradients->norm();
  norm.value /= members_->loss_scale;
  norm.square /= members_->loss_scale * members_->loss_scale;
  return norm;
}

void Engine::update(const Norm& norm, const optim::Optimizer::Step& step) {
  {
    const trace::Region region(trace::Level::steps, trace::Kind::phase, "publish");
    members_->gradients->wait_for_gather();
  }
  const trace::Region region(trace::Level::steps, trace::Kind::phase, "optimizer");
  optim::Optimizer::Step clipped = step;
  clipped.gradient_scale = clip_factor(norm.value, members_->options.grad_clip) / static_cast<float>(members_->loss_scale);
  members_->states.for_each_tile(true, [&](const Tile& tile) { members_->update_tile(tile, clipped); });
}

void Engine::publish() {
  const trace::Region region(trace::Level::steps, trace::Kind::phase, "publish");
  members_->start_all_gather();
}

void Engine::finish_gradients() {
  members_->states.prefetch();
  members_->gradients->finish_step();
  members_->copies.add_gradients(*members_->gradients);
}

void Engine::evaluate(std::size_t part, const model::MicroBatch& batch, const model::Flow& flow) {
  Members::PartOfModel& own = members_->parts.at(part);
  require(own.slots.all_free() && members_->passes.between_steps(),
          "an evaluation comes between the forward and the backward pass of a turn");
  members_->parameters->begin(members_->passes.evaluation(part));
  own.model->evaluate(batch, flow, members_->losses.cell(0));
}

double Engine::evaluated_loss() {
  members_->losses.fetch();
  device::wait_for_queue();
  return members_->losses.values().front();
}

double Engine::evaluate(const model::MicroBatch& batch) {
  evaluate(0, batch, {});
  return evaluated_loss();
}

}  // namespace shoal::zero
