// SPDX-License-Identifier: Apache-2.0
// A trained model, ready to run: its options are those of the checkpoint, unless the command line or its deck sets them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "app/setup/assembly.hpp"
#include "app/setup/resolve.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/config/options.hpp"
#include "shoal/kernels/runtime.hpp"

namespace shoal::app {

class LoadedModel {
 public:
  /// The first argument of the invocation means the checkpoint, as checkpoint_of() understands it. Collective.
  LoadedModel(comm::World& world, const config::Invocation& invocation, Purpose purpose);

  const std::filesystem::path& file() const { return file_; }
  std::int64_t step() const { return step_; }
  const ResolvedRun& resolved() const { return *resolved_; }
  zero::Engine& engine() const { return assembly_->engine; }
  Memory& memory() const { return assembly_->memory; }
  pipeline::Runner& runner() const { return assembly_->runner; }
  model::Model& model() const { return assembly_->engine.model(); }

 private:
  std::filesystem::path file_;
  std::int64_t step_ = 0;
  std::unique_ptr<ResolvedRun> resolved_;  // pointers, since they are built one after the other and refer to each other
  std::unique_ptr<kernels::Runtime> runtime_;
  std::unique_ptr<Assembly> assembly_;
};

}  // namespace shoal::app
