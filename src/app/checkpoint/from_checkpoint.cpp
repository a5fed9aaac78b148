// SPDX-License-Identifier: Apache-2.0
#include "app/checkpoint/from_checkpoint.hpp"

#include "app/checkpoint/checkpoint_state.hpp"
#include "app/checkpoint/newest.hpp"
#include "app/checkpoint/resume.hpp"
#include "app/setup/device_start.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/config/deck.hpp"
#include "shoal/config/table.hpp"
#include "shoal/io/checkpoint.hpp"
#include "shoal/kernels/products.hpp"

namespace shoal::app {

namespace {

/// The options of the checkpoint's own deck, overridden by those that this command line and its deck set.
config::Options overlaid(const io::CheckpointState& state, const std::filesystem::path& file,
                         const config::Invocation& invocation) {
  config::Deck deck = config::parse_deck_text(state.deck, file.string());
  require_input(deck.problems.empty(), file.string(), ": its options are not those of this version: ",
                deck.problems.empty() ? std::string() : deck.problems.front());
  for (const config::Row& row : config::table()) {
    if (!invocation.places.of(row.name).empty()) row.member.set(deck.options, row.member.get(invocation.options));
  }
  return deck.options;
}

}  // namespace

LoadedModel::LoadedModel(comm::World& world, const config::Invocation& invocation, Purpose purpose)
    : file_(checkpoint_of(world, invocation.arguments.at(0))) {
  heartbeat::phase("load");
  const io::CheckpointState state = io::read_checkpoint_state(file_);
  step_ = state.step;
  config::Invocation resolved;
  resolved.options = overlaid(state, file_, invocation);
  resolved.places = invocation.places;
  // The nodes and groups of the training run do not matter here.
  resolved.options.sync = {};
  resolved.options.pipeline = {};
  resolved.options.model.tied_gradient = {};  // nothing has a gradient
  // Samples are distributed one micro-batch at a time, so the training run's batch.global need not fit these ranks.
  const std::size_t samples_per_step = resolved.options.batch.global;
  resolved.options.batch.global = 0;
  resolved.options.adascale = {};  // nothing is trained
  resolved.options.schedule = {};
  resolved.options.checkpoint.keep_best = false;
  // Neither what the training job's machine was like, nor the faults that it was to survive.
  const auto own = [&](const char* option) { return !invocation.places.of(option).empty(); };
  resolved.options.fault = {};
  resolved.options.zero.hpz_size = {};
  if (!own("comm.ranks_per_node")) resolved.options.comm.ranks_per_node = 0;
  if (!own("memory.limit")) resolved.options.memory_limit_gib = 0;
  if (!own("train.threads")) resolved.options.train.threads = 0;
  // What a GPU did for speed does not matter where there is none.
  const kernels::ProductFeatures has = kernels::product_features();
  if (!has.tf32 && !own("train.tf32")) resolved.options.train.tf32 = false;
  if (!has.gelu && !own("train.fused_gelu")) resolved.options.train.fused_gelu = false;
  config::validate(resolved, world.size());
  resolved.options.batch.global = samples_per_step;
  resolved_ = std::make_unique<ResolvedRun>(resolve(world, resolved.options, world.size(), purpose));
  require_input(
      !has_another_vocabulary(state, resolved_->dataset.vocabulary), "data.source = ", resolved.options.data.source,
      ": its vocabulary is not that of the text that ", file_.string(),
      " was trained with, so its tokens mean others to the model; allowed: tokens with that vocabulary, or a text and "
      "data.vocabulary = a tokens file that has it");
  open_device(world);
  runtime_ = std::make_unique<kernels::Runtime>(resolved_->threads);
  require_room(world, *resolved_);
  assembly_ = std::make_unique<Assembly>(*resolved_, world);
  load_parameters(world, file_, assembly_->engine);
}

}  // namespace shoal::app
