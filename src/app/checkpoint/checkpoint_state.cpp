// SPDX-License-Identifier: Apache-2.0
#include "app/checkpoint/checkpoint_state.hpp"

#include <algorithm>

#include "app/setup/saved_slices.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/hash.hpp"
#include "shoal/io/hexadecimal.hpp"

namespace shoal::app {

namespace {

constexpr const char* shaping[] = {
    "train.seed",         "batch.global",         "batch.micro",        "data.source",
    "data.shuffle",       "optimizer.kind",       "optimizer.adascale", "schedule.kind",
    "train.dtype",        "train.tf32",           "train.fused_gelu",   "sync.kind",
    "sync.average_dtype", "sync.average_overlap", "sync.average_delay", "model.tied_gradient"};

/// Lists the tensors `own` for every node, each under the node's name: all ranks list the same tensors, and other nodes'
/// with an empty range.
std::vector<NamedSlice> per_node(const std::vector<NamedSlice>& own, const sync::NodeGroups& groups) {
  if (groups.across.ranks == 1) return own;
  std::vector<NamedSlice> all;
  for (int n = 0; n < groups.across.ranks; ++n) {
    for (NamedSlice slice : own) {
      slice.dataset = io::node_dataset(n, slice.dataset);
      if (n != groups.across.rank) {
        slice.range = {};
        slice.values = {};
      }
      all.push_back(std::move(slice));
    }
  }
  return all;
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

std::string identity_of(const data::Vocabulary& vocabulary) {
  if (vocabulary.empty()) return {};
  std::string all;
  for (const std::string& token : vocabulary) all += text(token.size(), ":", token);
  return io::hexadecimal(hash_of(all));
}

bool has_another_vocabulary(const io::CheckpointState& state, const data::Vocabulary& vocabulary) {
  const auto before = state.scalars.find(vocabulary_text);
  return before != state.scalars.end() && !vocabulary.empty() && before->second != identity_of(vocabulary);
}

bool has_updates(const io::CheckpointState& state) {
  std::int64_t fewest_skipped = state.step;
  bool counted = false;
  for (const auto& [name, skipped] : state.numbers) {
    if (!name.ends_with(skipped_updates_number)) continue;
    fewest_skipped = std::min(fewest_skipped, static_cast<std::int64_t>(skipped));
    counted = true;
  }
  return (counted ? fewest_skipped : 0) < state.step;
}

CheckpointContents contents_to_write(const config::Options& options, Assembly& assembly, std::int64_t steps,
                                     const std::map<std::string, double>& numbers) {
  CheckpointContents contents{{steps, config::print(options), shaping_options(options), numbers}, {}};
  if (const std::string layout = assembly.engine.residual_layout(); !layout.empty()) {
    contents.state.scalars[residuals_text] = layout;
  }
  if (assembly.synchroniser) {
    sync::SyncState state = assembly.synchroniser->state(static_cast<std::size_t>(steps));
    contents.slices = std::move(state.common);
    append(contents.slices, per_node(state.own, assembly.groups));
    contents.state.numbers.merge(state.numbers);
  } else {
    contents.slices = model_slices(assembly.engine, zero::States::Which::own);
  }
  append(contents.slices, assembly.engine.residual_slices());
  return contents;
}

}  // namespace shoal::app
