// SPDX-License-Identifier: Apache-2.0
// optimizer.kind: one line per optimizer.
#include <algorithm>
#include <array>
#include <iterator>

#include "adamw.hpp"
#include "sgd.hpp"
#include "shoal/base/error.hpp"

namespace shoal::optim {

namespace {

template <typename Kind>
std::unique_ptr<Optimizer> create(const OptimizerOptions& options) {
  return std::make_unique<Kind>(options);
}

struct Entry {
  const char* kind;
  std::unique_ptr<Optimizer> (*create)(const OptimizerOptions&);
};
constexpr std::array entries{Entry{"adamw", create<AdamW>}, Entry{"sgd", create<Sgd>}};

}  // namespace

std::unique_ptr<Optimizer> make(const OptimizerOptions& options) {
  for (const Entry& entry : entries) {
    if (options.kind == entry.kind) return entry.create(options);
  }
  std::string allowed;
  for (const std::string& kind : kinds()) allowed += (allowed.empty() ? "" : ", ") + kind;
  bad_input("optimizer.kind = ", options.kind, ": no such optimizer; allowed: ", allowed);
}

std::vector<std::string> kinds() {
  std::vector<std::string> names;
  std::transform(entries.begin(), entries.end(), std::back_inserter(names), [](const Entry& entry) { return entry.kind; });
  return names;
}

}  // namespace shoal::optim
