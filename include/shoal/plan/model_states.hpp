// SPDX-License-Identifier: Apache-2.0
// Model states by the formulas of the paper (Rajbhandari, Rasley, Ruwase, He 2020, "ZeRO: Memory Optimizations Toward
// Training Trillion Parameter Models", sections 3.1 and 5): for N parameters on D ranks
//
//            parameters  master  gradients  moments (AdamW)
//     fp32           4N       -         4N               8N      the parameters are their own masters
//     16 bits        2N      4N         4N               8N      gradients 2N, as in the paper, with 16-bit
//     comm.reduce_dtype
//
// each divided by D if the stage shards it. A run takes this plus the padding of shards to whole granules.
#pragma once

#include <cstddef>

#include "shoal/base/memory.hpp"
#include "shoal/zero/engine.hpp"

namespace shoal::plan {

/// Bytes per rank by these formulas, rounded down to whole bytes. All kinds but the model states are 0.
Ledger model_states(std::size_t parameters, const zero::EngineOptions& options, int ranks);

/// Bytes of the model states in a ledger: parameters, master parameters, gradients and moments.
std::size_t model_state_bytes(const Ledger& ledger);

}  // namespace shoal::plan
