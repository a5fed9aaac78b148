// SPDX-License-Identifier: Apache-2.0
// What cannot be combined with the head's copy of a tied embedding (model.tied_gradient = apart).
#include "config/checks/validate.hpp"
#include "shoal/base/error.hpp"
#include "shoal/config/table.hpp"

namespace shoal::config {

std::vector<std::string> tied_problems(const Options& o) {
  std::vector<std::string> problems;
  if (o.model.kind != model::ModelKind::gpt || o.model.tied_gradient != model::TiedGradient::apart) return problems;
  if (!o.model.tied)
    return {"model.tied_gradient = apart has no effect with model.tied = false; it needs model.tied = true"};
  const auto refuse = [&](const char* name, const char* why, const char* allowed) {
    problems.push_back(text("model.tied_gradient = apart cannot be combined with ", name, " = ", value_text(*find(name), o),
                            ": ", why, "; allowed: ", allowed));
  };
  const char* const quantized = "the head's copy would get rounded messages of its own, and differ from the embedding";
  if (o.zero.qwz != 0) refuse("zero.qwz", quantized, "off");
  if (o.zero.qgz != 0) refuse("zero.qgz", quantized, "off");
  if (o.zero.hpz_size != 0) refuse("zero.hpz_size", "each node would keep the embedding twice", "off");
  if (sync::trains_locally(o.sync)) {
    refuse("sync.kind", "nodes that train locally average the embedding, and not the head's copy of it", "every_step");
  }
  if (o.adascale.on) {
    refuse("optimizer.adascale", "it measures the gradient of each micro-batch as a whole", "false");
  }
  return problems;
}

}  // namespace shoal::config
