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

}  // namespace shoal::optim
