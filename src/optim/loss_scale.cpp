// SPDX-License-Identifier: Apache-2.0
#include "shoal/optim/loss_scale.hpp"

#include <algorithm>
#include <cmath>

#include "shoal/base/error.hpp"

namespace shoal::optim {

LossScaler::LossScaler(const LossScaleOptions& options) : options_(options) {
  require_input(std::isfinite(options.scale) && options.scale >= 0, "train.loss_scale = ", options.scale,
                ": must be greater than 0, or 0 for a dynamic scale");
  require_input(options.window >= 1, "train.loss_scale_window = 0: must be at least 1");
  require_input(options.hysteresis >= 1, "train.loss_scale_hysteresis = 0: must be at least 1");
  require_input(std::isfinite(options.minimum) && options.minimum > 0, "train.loss_scale_minimum = ", options.minimum,
                ": must be greater than 0");
  state_ = {dynamic() ? std::exp2(options.initial_power) : options.scale, 0, options.hysteresis};
}

bool LossScaler::update(bool overflow) {
  if (!dynamic()) return true;
  if (overflow) {
    state_.steps_since_overflow = 0;
    if (state_.hysteresis_left > 1) {
      --state_.hysteresis_left;
      return true;
    }
    if (state_.scale <= options_.minimum) return false;  // less after a resumption with a larger minimum
    state_.scale = std::max(state_.scale / 2, options_.minimum);
    return true;
  }
  if (options_.consecutive_hysteresis) state_.hysteresis_left = options_.hysteresis;
  // The count does not include this step, so the scale is doubled one step later the first time than afterwards.
  const std::uint64_t before = state_.steps_since_overflow++;
  if (before > 0 && before % options_.window == 0) {
    state_.scale *= 2;
    state_.hysteresis_left = options_.hysteresis;
  }
  return true;
}

void LossScaler::restore(const State& state) {
  if (!dynamic()) return;
  require(std::isfinite(state.scale) && state.scale > 0 && state.hysteresis_left >= 1, "a loss scale of ", state.scale,
          " with a hysteresis of ", state.hysteresis_left, " cannot be restored");
  state_ = state;
  state_.hysteresis_left = std::min(state_.hysteresis_left, options_.hysteresis);
}

}  // namespace shoal::optim
