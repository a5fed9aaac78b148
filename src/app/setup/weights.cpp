// SPDX-License-Identifier: Apache-2.0
#include "app/setup/weights.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <vector>

#include "app/setup/weight_names.hpp"
#include "app/support/collective.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/printable.hpp"
#include "shoal/base/state.hpp"
#include "shoal/io/safetensors.hpp"
#include "shoal/io/target.hpp"
#include "shoal/io/text_file.hpp"
#include "shoal/model/hugging_face.hpp"

namespace shoal::app {

namespace fs = std::filesystem;

namespace {

constexpr const char* parameters_prefix = "/parameters/";
constexpr const char *weights_name = "model.safetensors", *config_name = "config.json", *head_name = "lm_head.weight";
constexpr std::size_t compared_at_once = std::size_t{1} << 20U;

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

/// The weights of model.init_from, whose headers and config.json have been checked.
struct Weights {
  explicit Weights(const model::ModelOptions& options)
      : file(checked_source(options)), names(match_names(options, file.entries(), options.init_from)) {}
  io::Safetensors file;
  WeightNames names;
};

/// The first element whose bits differ, of two tensors with the same shape.
std::optional<std::size_t> first_difference(const io::Safetensors& file, const std::string& name, const std::string& other) {
  const std::size_t elements = file.entries().at(name).elements();
  std::vector<float> a(std::min(elements, compared_at_once)), b(a.size());
  const auto same_bits = [](float x, float y) { return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y); };
  for (std::size_t first = 0; first < elements; first += a.size()) {
    const Range range{first, std::min(first + a.size(), elements)};
    file.read(name, range, Span<float>(a).first(range.size()));
    file.read(other, range, Span<float>(b).first(range.size()));
    const auto end = a.begin() + static_cast<std::ptrdiff_t>(range.size());
    const auto differ = std::mismatch(a.begin(), end, b.begin(), same_bits).first;
    if (differ != end) return first + static_cast<std::size_t>(differ - a.begin());
    heartbeat::beat();
  }
  return std::nullopt;
}

/// What to do about a tensor that is in the file with two values.
std::string advice(const model::ModelOptions& options, const WeightNames::Copy& copy) {
  if (!copy.name.ends_with(head_name) && !copy.other.ends_with(head_name)) return "remove one of them";
  const bool described =
      fs::exists(fs::path(options.init_from) / config_name);  // as tied, or there would be an error before
  return text("if the model is not tied, set model.tied=false",
              described ? " and tie_word_embeddings to false in its config.json" : "");
}

void require_equal(const model::ModelOptions& options, const io::Safetensors& file, const WeightNames::Copy& copy) {
  const auto differ = first_difference(file, copy.name, copy.other);
  if (!differ) return;
  bad_input(options.init_from, ": ", printable(copy.name), " and ", printable(copy.other), " are one tensor of the model, ",
            copy.ours, ", but differ from element ", *differ, " on; ", advice(options, copy));
}

}  // namespace

std::string check_weights(const model::ModelOptions& options) {
  const Weights weights(options);
  for (const WeightNames::Copy& copy : weights.names.copies) require_equal(options, weights.file, copy);
  return weights.names.note;
}

void import_weights(const model::ModelOptions& options, zero::Engine& engine) {
  const Weights weights(options);
  for (const NamedSlice& slice : engine.states().parameter_slices(zero::States::Which::kept)) {
    weights.file.read(weights.names.in_file.at(tensor_name(slice)), slice.range, slice.values);
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
