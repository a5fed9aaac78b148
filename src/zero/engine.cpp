// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/engine.hpp"

#include <algorithm>

#include "shoal/base/error.hpp"
#include "shoal/base/trace.hpp"

namespace shoal::zero {

namespace {

/// torch's clip_grad_norm_: the factor that brings the norm to the limit, with its guard against a norm of zero.
float clip_factor(double norm, double limit) {
  return limit == 0 ? 1.0F : static_cast<float>(std::min(1.0, limit / (norm + 1e-6)));
}

}  // namespace

Engine::Engine(const EngineOptions& options, const Placement& placement, Memory& memory)
    : options_(options),
      units_(model::layout(options.model)),
      turns_(options.micro_batches, placement.ranks),
      optimizer_(optim::make(options.optimizer)),
      states_(units_, options.dtype, options.capacity.training ? optimizer_->moment_names() : std::vector<std::string>{},
              placement, memory) {
  if (options_.capacity.training) {
    gradients_ = std::make_unique<Gradients>(units_, turns_, placement, options_.gradients, memory);
  }
  model_ = model::make(options_.model, options_.dtype, options_.capacity, options_.seed, memory, *this);
}

double Engine::micro_batch(std::size_t round, std::size_t turn, const model::MicroBatch& batch) {
  gradients_->begin_turn(round, turn);
  const auto predictions = static_cast<double>(options_.micro_batches * model_->predictions(batch));
  double loss = 0;
  {
    const trace::Region region(trace::Level::steps, trace::Kind::phase, "forward");
    loss = model_->forward(batch, static_cast<float>(1.0 / predictions));
  }
  const trace::Region region(trace::Level::steps, trace::Kind::phase, "backward");
  model_->backward();
  return loss;
}

void Engine::update(const Norm& norm, const optim::Optimizer::Step& step) {
  {
    const trace::Region region(trace::Level::steps, trace::Kind::phase, "publish");
    gradients_->gather();
  }
  const trace::Region region(trace::Level::steps, trace::Kind::phase, "optimizer");
  optim::Optimizer::Step clipped = step;
  clipped.gradient_scale = clip_factor(norm.value, options_.grad_clip);
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const int unit = static_cast<int>(u);
    states_.step(unit, gradients_->reduced(unit), *optimizer_, clipped, options_.optimizer.decay_1d);
  }
}

const void* Engine::acquire(int unit) { return states_.parameters(unit); }
void Engine::release(int) {}
float* Engine::gradient(int unit) { return gradients_->of(unit); }
void Engine::gradient_complete(int unit) { gradients_->complete(unit); }

}  // namespace shoal::zero
