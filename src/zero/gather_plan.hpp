// SPDX-License-Identifier: Apache-2.0
// When the parameters of each unit are gathered and released in a pass through the model, and in which memory they are
// meanwhile. The order in which a pass uses units is known beforehand (model::use_order), so all of this is decided before
// the first step: no pass has to be recorded first, and the memory is known to the byte.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "shoal/base/types.hpp"
#include "shoal/model/model.hpp"
#include "shoal/model/unit.hpp"
#include "shoal/zero/options.hpp"
#include "shoal/zero/stages.hpp"
#include "zero/message_order.hpp"

namespace shoal::zero {

/// The uses of a pass in their order (model::use_order()). Each lists the units that are acquired together.
using model::UseOrder;

/// The time from the gather of a unit's parameters to their release, during which they are whole on this rank.
struct GatherLifetime {
  int unit;
  std::size_t first, last;  ///< indices of the first and the last use that include it
  std::size_t start;        ///< the gather is started at the beginning of this use
  std::size_t offset = 0;   ///< in the memory of gathered parameters, in bytes
};

struct GatherPlan {
  std::vector<GatherLifetime> gather_lifetimes;  ///< in the order in which their gathers start
  std::size_t bytes = 0;                         ///< of the memory of gathered parameters
  /// By use: what is done at its beginning. A message is the gather of a lifetime, and its number is the index of the
  /// lifetime. The last calls wait for the units of the use.
  std::vector<Calls> calls;
};

/// bytes_of[u]: bytes of the whole unit u; 0 if it is not gathered. A gather starts when the unit whose gather was planned
/// options.prefetch_units before it is first used, or later if options.max_live_mb leaves no memory for it. A unit is
/// released after a use, unless the gather for its next one would start then at the latest: it stays, and is gathered once
/// for both. If options.reshard_after_forward is false, it is released only after its last use in the pass. A limit too
/// small for the units that are used together is refused (bad_input, with the `names` of these units).
GatherPlan plan_gathers(const UseOrder& uses, const std::vector<std::size_t>& bytes_of,
                        const std::vector<std::string>& names, const ZeroOptions& options);

/// The same for a pass of a rank that keeps its units like this, with parameters of this type. overlap: false: nothing is
/// gathered ahead.
GatherPlan plan_gathers(const UseOrder& uses, const std::vector<model::UnitLayout>& units,
                        const std::vector<ShardLayout>& layouts, DType dtype, const ZeroOptions& options, bool overlap);

}  // namespace shoal::zero
