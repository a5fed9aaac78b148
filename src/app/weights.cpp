// SPDX-License-Identifier: Apache-2.0
#include "weights.hpp"

#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <vector>

#include "collective.hpp"
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

/// model.init_from, whose config.json, if it has one, describes the model.
fs::path checked_source(const model::ModelOptions& options) {
  fs::path source = options.init_from;
  if (!fs::is_directory(source)) return source;
  const fs::path file = source / config_name;
  std::ifstream in(file);
  if (!in) return source;  // weights alone: names and shapes are checked all the same
  std::ostringstream content;
  content << in.rdbuf();
  std::string problems;
  for (const std::string& problem : model::disagreements(content.str(), options)) {
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

/// The file's name of every tensor of the model, by ours, from headers alone; all that disagrees is named in one error.
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
  std::map<std::string, std::string> without_place = names;
  for (const model::UnitLayout& unit : model::layout(options)) {
    for (const auto& parameter : unit.parameters) {
      const auto found = names.find(parameter.name);
      if (found == names.end()) {
        add(parameter.name + " is not there");
        continue;
      }
      const io::SafetensorsEntry& entry = weights.entries().at(found->second);
      add(shape_problem(parameter.name, entry.shape, parameter.shape));
      add(io::dtype_problem(found->second, entry));
      without_place.erase(parameter.name);
    }
  }
  for (const auto& [ours, theirs] : without_place) add(theirs + " has no place in the model");
  require_input(problems.empty(), problems);
  return names;
}

/// Opened and checked: headers and config.json, no tensor.
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
  // Nothing in a configuration says who wrote it: it belongs to the weights beside it.
  const io::OwnKind config = {"configuration of weights that this program wrote",
                              [&](const fs::path&) { return io::is_own(weights, io::own_weights()); }};
  io::require_target(option, weights, io::own_weights(), overwrite);
  io::require_target(option, directory / config_name, config, overwrite);
}

void export_weights(comm::World& world, const model::ModelOptions& options, zero::Engine& engine,
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
  for (std::size_t u = 0; u < units.size(); ++u) {  // never more than one unit is whole
    const std::vector<float> values = engine.states().whole_master(static_cast<int>(u));
    on_rank_0(world.all(), [&] {
      for (const auto& p : units[u].parameters) writer->append(Span<const float>(values).subspan(p.offset, p.elements()));
    });
  }
  on_rank_0(world.all(), [&] {
    writer->finish();
    const std::string config = model::config_json(options);
    if (config.empty()) return;  // a model that Hugging Face has no name for: weights alone
    io::write_text_file(directory / config_name, config + "\n");
  });
}

}  // namespace shoal::app
