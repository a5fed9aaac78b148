// SPDX-License-Identifier: Apache-2.0
#include "app/setup/weights.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "app/support/collective.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/state.hpp"
#include "shoal/io/safetensors.hpp"
#include "shoal/io/target.hpp"
#include "shoal/io/text_file.hpp"
#include "shoal/model/hugging_face.hpp"

namespace shoal::app {

namespace fs = std::filesystem;

namespace {

constexpr const char* parameters_prefix = "/parameters/";
constexpr const char *weights_name = "model.safetensors", *config_name = "config.json";

std::string tensor_name(const NamedSlice& slice) { return slice.dataset.substr(std::string_view(parameters_prefix).size()); }

/// Returns model.init_from. Fails if its config.json, if it has one, does not describe the model.
fs::path checked_source(const model::ModelOptions& options) {
  fs::path source = options.init_from;
  if (!fs::is_directory(source)) return source;
  const fs::path file = source / config_name;
  if (!fs::exists(file)) return source;  // names and shapes are checked all the same
  std::string problems;
  for (const std::string& problem : model::disagreements(io::read_text_file(file), options)) {
    problems += (problems.empty() ? "" : "\n") + file.string() + ": " + problem;
  }
  require_input(problems.empty(), problems);
  return source;
}

std::string shape_problem(const std::string& name, const std::vector<std::size_t>& theirs,
                          const std::vector<std::size_t>& ours) {
  if (theirs == ours) return {};
  return text(name, " has shape ", shape_text(theirs), ", the model needs ", shape_text(ours));
}

/// Returns the file's name of every tensor of the model, by our name. Reads headers alone; one error names all that
/// disagrees.
std::map<std::string, std::string> matching_names(const model::ModelOptions& options, const io::Safetensors& weights) {
  std::string problems;
  const auto add = [&](const std::string& problem) {
    if (!problem.empty()) problems += (problems.empty() ? "" : "\n") + options.init_from + ": " + problem;
  };
  std::map<std::string, std::string> names;
  for (const auto& [name, entry] : weights.entries()) {
    const auto ours = model::canonical_name(name);
    if (!ours) continue;
    const auto [other, fresh] = names.try_emplace(*ours, name);
    if (!fresh) add(text(name, " and ", other->second, " are the same tensor"));
  }
  std::map<std::string, std::string> unused = names;
  for (const model::UnitLayout& unit : model::layout(options)) {
    for (const auto& parameter : unit.parameters) {
      const auto found = names.find(parameter.name);
      if (found == names.end()) {
        add(parameter.name + " is missing");
        continue;
      }
      const io::SafetensorsEntry& entry = weights.entries().at(found->second);
      add(shape_problem(parameter.name, entry.shape, parameter.shape));
      add(io::dtype_problem(found->second, entry));
      unused.erase(parameter.name);
    }
  }
  for (const auto& [ours, theirs] : unused) add(theirs + " is no tensor of the model");
  require_input(problems.empty(), problems);
  return names;
}

/// The weights of model.init_from, whose headers and config.json have been checked.
struct Weights {
  explicit Weights(const model::ModelOptions& options)
      : file(checked_source(options)), names(matching_names(options, file)) {}
  io::Safetensors file;
  std::map<std::string, std::string> names;
};

}  // namespace

void check_weights(const model::ModelOptions& options) { Weights{options}; }

void import_weights(const model::ModelOptions& options, zero::Engine& engine) {
  const Weights weights(options);
  for (const NamedSlice& slice : engine.states().parameter_slices(zero::States::Which::kept)) {
    weights.file.read(weights.names.at(tensor_name(slice)), slice.range, slice.values);
  }
  engine.rebuild_parameters();
}

void require_export(const std::string& option, const fs::path& directory, bool overwrite) {
  const fs::path weights = directory / weights_name;
  // A configuration does not name the program that wrote it: it is ours if the weights in the same directory are.
  const io::OwnKind config = {"configuration of weights that this program wrote",
                              [&](const fs::path&) { return io::is_own(weights, io::own_weights()); }};
  io::require_target(option, weights, io::own_weights(), overwrite);
  io::require_target(option, directory / config_name, config, overwrite);
}

void export_weights(comm::World& world, const model::ModelOptions& options, zero::Engine& engine, Span<float> memory,
                    const fs::path& directory) {
  const auto& units = engine.units();
  std::unique_ptr<io::SafetensorsWriter> writer;  // on rank 0
  on_rank_0(world.all(), [&] {
    fs::create_directories(directory);
    std::vector<io::SafetensorsWriter::Tensor> tensors;
    for (const auto& unit : units) {
      for (const auto& p : unit.parameters) tensors.push_back({p.name, p.shape});
    }
    writer = std::make_unique<io::SafetensorsWriter>(directory / weights_name, tensors);
  });
  for (std::size_t u = 0; u < units.size(); ++u) {
    engine.states().whole_master(static_cast<int>(u), memory, [&](std::size_t first, Span<const float> piece) {
      on_rank_0(world.all(), [&] {
        for (const auto& p : units[u].parameters) {
          const Range part = intersection(p.range(), {first, first + piece.size()});
          if (!part.empty()) writer->append(piece.subspan(part.begin - first, part.size()));
        }
      });
    });
  }
  on_rank_0(world.all(), [&] {
    writer->finish();
    const std::string config = model::config_json(options);
    if (config.empty()) {                   // Hugging Face does not have this model: weights alone
      fs::remove(directory / config_name);  // of another model that was exported here
      return;
    }
    io::write_text_file(directory / config_name, config + "\n");
  });
}

}  // namespace shoal::app
