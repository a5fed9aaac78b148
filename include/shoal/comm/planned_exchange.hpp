// SPDX-License-Identifier: Apache-2.0
// What a collective sends, for those who plan or simulate it without any data.
#pragma once

#include <cstddef>
#include <vector>

namespace shoal::comm {

/// Bytes that a rank sends to one partner, a rank of its group, and receives from it. Without bytes there is no message.
struct PartnerBytes {
  int partner = 0;
  std::size_t sent = 0, received = 0;
};

/// Messages that are in flight at the same time. A collective's next exchange begins when all of them have arrived. How they
/// are cut into smaller messages (messages.hpp) is left out.
using PlannedExchange = std::vector<PartnerBytes>;

}  // namespace shoal::comm
