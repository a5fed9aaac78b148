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
#include "shoal/model/hugging_face.hpp"

namespace shoal::app {

namespace fs = std::filesystem;

namespace {

constexpr const char* parameters_prefix = "/parameters/";

std::string tensor_name(const NamedSlice& slice) { return slice.dataset.substr(std::string_view(parameters_prefix).size()); }

void check_config(const fs::path& file, const model::ModelOptions& options) {
  std::ifstream in(file);
  if (!in) return;  // weights alone: names and shapes are checked all the same
  std::ostringstream content;
  content << in.rdbuf();
  std::string problems;
  for (const std::string& problem : model::disagreements(content.str(), options)) {
    problems += (problems.empty() ? "" : "\n") + file.string() + ": " + problem;
  }
  require_input(problems.empty(), problems);
}

}  // namespace

void import_weights(const model::ModelOptions& options, zero::Engine& engine) {
  const fs::path source = options.init_from;
  if (fs::is_directory(source)) check_config(source / "config.json", options);
  const io::Safetensors weights(source);

  std::string problems;
  const auto add = [&](const std::string& problem) {
    problems += (problems.empty() ? "" : "\n") + source.string() + ": " + problem;
  };
  std::map<std::string, std::string> names;  // ours, the file's
  for (const auto& [name, entry] : weights.entries()) {
    const auto ours = model::canonical_name(name);
    if (!ours) continue;
    const auto [other, fresh] = names.try_emplace(*ours, name);
    if (!fresh) add(text(name, " and ", other->second, " are the same tensor"));
  }
  for (const NamedSlice& slice : engine.states().parameter_slices(zero::States::Which::kept)) {
    const auto found = names.find(tensor_name(slice));
    if (found == names.end()) {
      add(tensor_name(slice) + " is not there");
      continue;
    }
    const auto& entry = weights.entries().at(found->second);
    if (entry.shape != slice.shape) {
      add(text(tensor_name(slice), " has shape ", shape_text(entry.shape), ", the model needs ", shape_text(slice.shape)));
    } else {
      weights.read(found->second, slice.range, slice.values);
    }
    names.erase(found);
  }
  for (const auto& [ours, theirs] : names) add(theirs + " has no place in the model");
  require_input(problems.empty(), problems);
  engine.refresh();
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
    writer = std::make_unique<io::SafetensorsWriter>(directory / "model.safetensors", tensors);
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
    std::ofstream file(directory / "config.json");
    file << config << '\n';
    file.flush();
    require(file.good(), (directory / "config.json").string(), ": cannot be written");
  });
}

}  // namespace shoal::app
