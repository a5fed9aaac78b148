// SPDX-License-Identifier: Apache-2.0
#include "support/with_device.hpp"

namespace shoal::test {

int with_device(int (*run)()) { return run(); }

}  // namespace shoal::test
