// SPDX-License-Identifier: Apache-2.0
// The factor that keeps fp16 gradients from vanishing, static or dynamic (Micikevicius et al. 2018, section 3.2), with
// DeepSpeed's rules.
#pragma once

#include <cstdint>

namespace shoal::optim {

struct LossScaleOptions {
  double scale = 0;                     ///< fixed; 0: dynamic, with what follows
  std::uint32_t initial_power = 16;     ///< it starts at 2 to this power
  std::uint32_t window = 1000;          ///< steps without an overflow after which it doubles
  std::uint32_t hysteresis = 2;         ///< overflows that it takes to halve
  bool consecutive_hysteresis = false;  ///< every step without an overflow restores the hysteresis
  double minimum = 1;                   ///< an overflow at this scale ends the run
};

/// The loss is multiplied by scale() before backward, so that small gradients survive fp16; a step whose gradients overflow
/// is skipped. With a dynamic scale, an overflow halves it (but not below the minimum) once the hysteresis is used up, and
/// `window` steps without one double it: the first time after window + 1, as DeepSpeed counts. The hysteresis comes back
/// when the scale grows or, where it is consecutive, with every step without an overflow.
class LossScaler {
 public:
  /// Fails (bad input) where an option is out of its range.
  explicit LossScaler(const LossScaleOptions& options);

  double scale() const { return state_.scale; }

  /// What this step's gradients showed; `step` is named where the scale cannot be lowered any more: the run ends then, by an
  /// Error that every rank meets. A fixed scale stays as it is.
  void update(bool overflow, std::int64_t step);

  /// What a checkpoint keeps.
  struct State {
    double scale = 0;
    std::uint64_t steps_since_overflow = 0;  ///< steps without one since the last, or since the start
    std::uint32_t hysteresis_left = 0;       ///< overflows that it takes to halve, from here on
    bool operator==(const State&) const = default;
  };
  const State& state() const { return state_; }
  /// Goes on from there. A fixed scale is the options': only a dynamic one is taken from the state.
  void restore(const State& state);

 private:
  bool dynamic() const { return options_.scale == 0; }

  LossScaleOptions options_;
  State state_;
};

}  // namespace shoal::optim
