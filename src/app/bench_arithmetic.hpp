// SPDX-License-Identifier: Apache-2.0
// What a rank's arithmetic takes while all ranks do the same at once, as ranks of one run do: they may share cores.
#pragma once

#include <map>
#include <string>

#include "shoal/comm/world.hpp"
#include "shoal/plan/step_time.hpp"

namespace shoal::app {

/// Seconds a byte of adding fp32 numbers, and seconds an element of quantization. Collective.
double sum_seconds_per_byte(comm::World& world);
plan::Codec codec_seconds(comm::World& world, int bits);

/// Of products alone, by train.dtype: GFLOP/s of the slowest rank. Collective.
std::map<std::string, double> peak_gflops(comm::World& world);

/// Of training, by train.dtype: blocks of several widths, forward and backward, and AdamW. Collective.
std::map<std::string, plan::TrainingRates> training_rates(comm::World& world);

}  // namespace shoal::app
