// SPDX-License-Identifier: Apache-2.0
#include "app/setup/saved_slices.hpp"

namespace shoal::app {

std::vector<NamedSlice> model_slices(zero::Engine& engine, zero::States::Which which) {
  std::vector<NamedSlice> slices = engine.states().parameter_slices(which);
  append(slices, engine.states().moment_slices(which));
  return slices;
}

std::vector<NamedSlice> slices_to_copy(zero::Engine& engine) {
  std::vector<NamedSlice> slices = model_slices(engine, zero::States::Which::own);
  append(slices, engine.residual_slices());
  return slices;
}

}  // namespace shoal::app
