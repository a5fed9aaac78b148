// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_state.hpp"

namespace shoal::app {

namespace {

constexpr const char* shaping[] = {"train.seed",        "batch.global",   "batch.micro",        "data.source",
                                   "data.shuffle",      "optimizer.kind", "optimizer.adascale", "schedule.kind",
                                   "train.dtype",       "sync.kind",      "sync.average_dtype", "sync.average_overlap",
                                   "sync.average_delay"};

/// This node's tensors, and that every other node has its own: all ranks list the same.
std::vector<NamedSlice> per_node(const std::vector<NamedSlice>& own, const sync::NodeGroups& place) {
  std::vector<NamedSlice> all;
  for (int n = 0; n < place.across.ranks; ++n) {
    for (NamedSlice slice : own) {
      slice.dataset = io::node_dataset(n, slice.dataset);
      if (n != place.across.rank) {
        slice.range = {};
        slice.values = {};
      }
      all.push_back(std::move(slice));
    }
  }
  return all;
}

/// Without residuals, which only ranks that are always in step have.
std::vector<NamedSlice> tensors_to_write(Machine& machine, std::int64_t steps) {
  constexpr auto own = zero::States::Which::own;
  if (!machine.synchroniser) return model_slices(machine.engine, own);
  sync::Synchroniser& synchroniser = *machine.synchroniser;
  const sync::NodeGroups& place = machine.place;
  if (was_in_step(synchroniser, steps)) {
    std::vector<NamedSlice> slices = synchroniser.common_parameters();
    append(slices, synchroniser.common_moments());
    return slices;
  }
  if (place.across.ranks == 1) {
    std::vector<NamedSlice> slices = model_slices(machine.engine, own);
    append(slices, synchroniser.common_slices());
    append(slices, synchroniser.node_slices());
    return slices;
  }
  std::vector<NamedSlice> apart = machine.engine.states().moment_slices(own), slices;
  append(apart, synchroniser.node_slices());
  if (synchroniser.schedule().nodes_differ_after(static_cast<std::size_t>(steps))) {
    append(apart, machine.engine.states().parameter_slices(own));
  } else {
    slices = synchroniser.common_parameters();
  }
  append(slices, synchroniser.common_slices());
  append(slices, per_node(apart, place));
  return slices;
}

}  // namespace

std::map<std::string, std::string> shaping_options(const config::Options& options) {
  std::map<std::string, std::string> result;
  for (const auto& [name, value] : config::list(options)) {
    for (const char* const wanted : shaping) {
      if (name == wanted) result[name] = value;
    }
  }
  return result;
}

bool was_in_step(const sync::Synchroniser& synchroniser, std::int64_t steps) {
  return synchroniser.schedule().in_warmup(static_cast<std::size_t>(steps));
}

std::vector<NamedSlice> model_slices(zero::Engine& engine, zero::States::Which which) {
  std::vector<NamedSlice> slices = engine.states().parameter_slices(which);
  append(slices, engine.states().moment_slices(which));
  return slices;
}

std::vector<NamedSlice> slices_to_write(Machine& machine, std::int64_t steps) {
  std::vector<NamedSlice> slices = tensors_to_write(machine, steps);
  append(slices, machine.engine.residual_slices());
  return slices;
}

std::vector<NamedSlice> slices_to_copy(zero::Engine& engine) {
  std::vector<NamedSlice> slices = model_slices(engine, zero::States::Which::own);
  append(slices, engine.residual_slices());
  return slices;
}

io::CheckpointState state_to_write(const config::Options& options, const Machine& machine, std::int64_t steps,
                                   const std::map<std::string, double>& numbers) {
  io::CheckpointState state{steps, config::print(options), shaping_options(options), numbers};
  if (const std::string layout = machine.engine.residual_layout(); !layout.empty()) state.scalars[residuals_text] = layout;
  if (!machine.synchroniser || was_in_step(*machine.synchroniser, steps)) return state;
  const sync::Synchroniser& synchroniser = *machine.synchroniser;
  state.numbers[nodes_number] = machine.place.across.ranks;
  state.numbers[outer_number] = synchroniser.schedule().has_outer() ? 1 : 0;
  state.numbers[common_number] = synchroniser.parameters_in_common().empty() ? 0 : 1;
  state.numbers[pushed_number] = synchroniser.exchange_under_way() ? 1 : 0;
  state.numbers[mean_number] = synchroniser.mean_under_way() ? 1 : 0;
  state.numbers[lost_number] = synchroniser.lost_slices().empty() ? 0 : 1;
  return state;
}

}  // namespace shoal::app
