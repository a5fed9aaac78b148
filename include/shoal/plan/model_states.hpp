// SPDX-License-Identifier: Apache-2.0
// Model states by the formulas of the paper (Rajbhandari, Rasley, Ruwase, He 2020, "ZeRO: Memory Optimizations Toward
// Training Trillion Parameter Models", sections 3.1 and 5): for N parameters on D ranks
//
//            parameters  master  gradients  moments (AdamW)
//     fp32           4N       -         4N               8N      here the parameters are the masters
//     16 bits        2N      4N         4N               8N      gradients 2N, as in the paper, with 16-bit
//     comm.reduce_dtype
//
// each divided by D where the stage shares it out. What a run takes is this and the padding of shards to whole pieces.
#pragma once

#include <cstddef>

#include "shoal/base/memory.hpp"
#include "shoal/zero/engine.hpp"

namespace shoal::plan {

/// By the formula, per rank, cut to whole bytes; activations and buffers are 0.
Ledger model_states(std::size_t parameters, const zero::EngineOptions& options, int ranks);

/// The part of a ledger that are model states: without activations and buffers.
std::size_t model_state_bytes(const Ledger& ledger);

}  // namespace shoal::plan
