// SPDX-License-Identifier: Apache-2.0
#include "support/managed_memory.hpp"

namespace shoal::test {

void manage_memory(bool /*on*/) {}

}  // namespace shoal::test
