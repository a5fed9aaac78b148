// SPDX-License-Identifier: Apache-2.0
// Which layers each part of a pipeline computes. Parts are cut between blocks, and each has at least one. The units before
// the first block (the embedding) belong to the first part, and the head to the last one.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/base/types.hpp"

namespace shoal::pipeline {

/// By part: its number of blocks.
using Balance = std::vector<std::size_t>;

/// Returns true if a part can have these blocks [begin, end): if its stage has enough memory for them. If blocks do not fit,
/// more blocks do not either.
using Fits = std::function<bool(std::size_t part, Range blocks)>;

/// Cuts the blocks into parts so that the largest sum of costs is as small as possible. Among several such cuts: fewer
/// blocks for the first parts, whose stages keep the activations of more turns. None if no cut fits. Dynamic programming
/// over parts and first blocks: O(parts x blocks^2). costs must not be negative. fail() if there are fewer blocks than
/// parts.
///
/// For a whole model, the embedding's cost belongs to that of the first block and the head's to the last one.
std::optional<Balance> least_largest(const std::vector<double>& costs, std::size_t parts, const Fits& fits = {});

/// The time of a step with this cut, in any unit.
using StepTime = std::function<double(const Balance&)>;
/// Returns true if all stages have enough memory with this cut.
using Possible = std::function<bool(const Balance&)>;

/// If a stage has several parts, the largest part does not decide alone how long a step takes: the sum of a stage's parts
/// does, too, and so do the gaps between its passes. This moves one block from a part to another: of all such moves that are
/// possible the one after which the step is shortest, again and again, until none shortens it or step() was called
/// `most_calls` times (at least once). The parts between the two keep their numbers of blocks. All ranks find the same cut.
/// It is a local search: several moves at once may lead to a still shorter step.
Balance shortened(Balance balance, const StepTime& step, const Possible& possible, std::size_t most_calls);

/// The value of pipeline.balance: `auto`, or the numbers of blocks of all parts, as "3,2,1".
struct BalanceText {
  std::optional<Balance> balance;  ///< none: auto
  std::string problem;             ///< what is wrong; empty if nothing is
};
/// Reads the text, and checks it against the number of parts and of blocks.
BalanceText read_balance(std::string_view text, std::size_t parts, std::size_t blocks);

/// By part, the units [begin, end) of a model with the units embedding, blocks, head.
std::vector<Range> units_of(const Balance& balance);

}  // namespace shoal::pipeline
