// SPDX-License-Identifier: Apache-2.0
#include "support/messages.hpp"

namespace shoal::test {

comm::CommOptions comm_options(int ranks_per_node) {
  comm::CommOptions options;
  options.ranks_per_node = ranks_per_node;
  return options;
}

int with_messages(int (*run)()) { return run(); }

}  // namespace shoal::test
