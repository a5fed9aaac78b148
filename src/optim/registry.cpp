// SPDX-License-Identifier: Apache-2.0
// From optimizer.kind to the optimizer.
#include "adamw.hpp"
#include "sgd.hpp"
#include "shoal/base/error.hpp"

namespace shoal::optim {

std::unique_ptr<Optimizer> make(const OptimizerOptions& options) {
  switch (options.kind) {
    case OptimizerKind::adamw: return std::make_unique<AdamW>(options);
    case OptimizerKind::sgd: return std::make_unique<Sgd>(options);
  }
  fail("optimizer.kind has the value ", static_cast<int>(options.kind));
}

}  // namespace shoal::optim
