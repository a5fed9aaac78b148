// SPDX-License-Identifier: Apache-2.0
// The factor on the loss that keeps fp16 gradients from becoming zero, fixed or dynamic (Micikevicius et al. 2018, section
// 3.2), with the rules of DeepSpeed.
#pragma once

#include <cstdint>

namespace shoal::optim {

struct LossScaleOptions {
  double scale = 0;                     ///< a fixed scale; 0: dynamic, with the options below
  std::uint32_t initial_power = 16;     ///< a dynamic scale starts at 2 to this power
  std::uint32_t window = 1000;          ///< steps without an overflow after which the scale is doubled
  std::uint32_t hysteresis = 2;         ///< overflows after which the scale is halved
  bool consecutive_hysteresis = false;  ///< every step without an overflow restarts the count of overflows
  double minimum = 1;                   ///< an overflow at this scale ends the run
};

/// The loss is multiplied by scale() before the backward pass, so that small gradients do not become zero in fp16; a step
/// whose gradients overflow is skipped. A dynamic scale is halved, but not below the minimum, at overflow number
/// `hysteresis`, and at every further one until the count of overflows restarts. It is doubled after `window` steps without
/// an overflow; the first time after window + 1 steps, as in DeepSpeed. The count restarts when the scale is doubled and,
/// with consecutive_hysteresis, after every step without an overflow.
class LossScaler {
 public:
  /// Fails (bad_input) if an option is out of its range.
  explicit LossScaler(const LossScaleOptions& options);

  double scale() const { return state_.scale; }

  /// Takes the result of a step. Returns false if the gradients overflow at the smallest scale, so that the run must end.
  /// With nodes that train locally, one node may get false while the others get true. A fixed scale does not change.
  [[nodiscard]] bool update(bool overflow);

  /// State for a checkpoint.
  struct State {
    double scale = 0;
    std::uint64_t steps_since_overflow = 0;  ///< steps since the last overflow, or since the start
    std::uint32_t hysteresis_left = 0;       ///< further overflows after which the scale is halved
    bool operator==(const State&) const = default;
  };
  const State& state() const { return state_; }
  /// Continues from a saved state, if the scale is dynamic. A fixed scale is always that of the options.
  void restore(const State& state);

 private:
  bool dynamic() const { return options_.scale == 0; }

  LossScaleOptions options_;
  State state_;
};

}  // namespace shoal::optim
