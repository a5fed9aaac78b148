// SPDX-License-Identifier: Apache-2.0
// Times a rank's arithmetic while all ranks do the same, as in a run: several ranks may use the same cores.
#pragma once

#include <map>
#include <string>

#include "shoal/comm/world.hpp"
#include "shoal/plan/step_time.hpp"

namespace shoal::app {

/// Seconds per byte for adding fp32 numbers, and per element for quantization. Collective.
double sum_seconds_per_byte(comm::World& world);
plan::Codec codec_seconds(comm::World& world, int bits);

/// Peak of matrix products by train.dtype: measured_peak() (peak.hpp), in GFLOP/s per rank. Collective.
std::map<std::string, double> peak_gflops(comm::World& world);

/// Speed of training by train.dtype: forward and backward for several widths, and AdamW. Collective.
std::map<std::string, plan::TrainingRates> training_rates(comm::World& world);

}  // namespace shoal::app
