// SPDX-License-Identifier: Apache-2.0
// What a person wants to know of a checkpoint.
#pragma once

#include <string>

#include "app/support/text_table.hpp"
#include "shoal/config/options.hpp"
#include "shoal/io/checkpoint.hpp"

namespace shoal::app {

/// About a dozen rows: model, progress, losses, how it was trained and whether it is complete. Checkpoints of older programs
/// lack some of them; where their options cannot be read, more. verified: its data were read back, and the checksums agreed.
TextRows checkpoint_rows(const io::CheckpointContents& contents, bool verified);

/// "stage 3, zero.hpz_size = node": the ZeRO stage, and other options of zero, pipeline, sync and offload that are not
/// the defaults.
std::string strategy_text(const config::Options& options);

}  // namespace shoal::app
