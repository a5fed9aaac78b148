// SPDX-License-Identifier: Apache-2.0
#include "app/setup/weight_names.hpp"

#include <algorithm>
#include <string_view>

#include "shoal/base/error.hpp"
#include "shoal/base/printable.hpp"
#include "shoal/base/state.hpp"
#include "shoal/model/hugging_face.hpp"

namespace shoal::app {

namespace {

using Shape = std::vector<std::size_t>;
using Entries = std::map<std::string, io::SafetensorsEntry>;
using Parameters = std::map<std::string, Shape>;

/// What the names of a file mean without a prefix.
struct Reading {
  std::string prefix;
  WeightNames names;
  std::vector<std::string> missing;  // our names
  std::vector<std::string> foreign;  // the file's names of what is no tensor of the model
  std::size_t problems() const { return missing.size() + foreign.size(); }
};

std::string quoted(const std::string& name) { return '"' + printable(name) + '"'; }
bool is_bias(std::string_view name) { return name.ends_with(".bias"); }

/// "", and what all names begin with, up to each point.
std::vector<std::string> common_prefixes(const Entries& entries) {
  std::vector<std::string> prefixes{""};
  if (entries.empty()) return prefixes;
  const std::string &first = entries.begin()->first, &last = entries.rbegin()->first;  // between them lie all others
  const auto differ = std::mismatch(first.begin(), first.end(), last.begin(), last.end()).first;
  for (auto at = first.begin(); at != differ; ++at) {
    if (*at == '.') prefixes.emplace_back(first.begin(), at + 1);
  }
  return prefixes;
}

Reading read_without(const std::string& prefix, const model::ModelOptions& options, const Parameters& parameters,
                     const Entries& entries) {
  Reading reading{prefix, {}, {}, {}};
  for (const auto& [name, entry] : entries) {
    const auto ours = model::canonical_name(std::string_view(name).substr(prefix.size()), options);
    if (!ours) continue;
    if (!parameters.contains(*ours)) {
      reading.foreign.push_back(name);
      continue;
    }
    const auto [known, fresh] = reading.names.in_file.try_emplace(*ours, name);
    if (!fresh) reading.names.copies.push_back({known->second, name, *ours});
  }
  for (const auto& [name, shape] : parameters) {
    if (!reading.names.in_file.contains(name)) reading.missing.push_back(name);
  }
  return reading;
}

/// The reading with the fewest problems; of equal ones that with the shortest prefix.
Reading best_reading(const model::ModelOptions& options, const Parameters& parameters, const Entries& entries) {
  std::vector<Reading> readings;
  for (const std::string& prefix : common_prefixes(entries)) {
    readings.push_back(read_without(prefix, options, parameters, entries));
  }
  return *std::min_element(readings.begin(), readings.end(),
                           [](const Reading& a, const Reading& b) { return a.problems() < b.problems(); });
}

/// Weights of which hardly any tensor is the model's.
std::string problem_of_another_model(const Reading& reading, const Parameters& parameters) {
  const std::size_t found = parameters.size() - reading.missing.size();
  if (reading.foreign.empty() || found * 10 > parameters.size()) return {};
  return text("has ", found, " of the model's ", parameters.size(), " tensors, and ", reading.foreign.size(),
              " others, such as ", quoted(reading.foreign.front()), ": weights of another model");
}

std::vector<std::string> problems_of_names(const Reading& reading, const Parameters& parameters) {
  std::vector<std::string> problems;
  if (reading.problems() == 0) return problems;
  if (!reading.prefix.empty()) {
    problems.push_back(text("all names begin with ", quoted(reading.prefix), "; without it they do not fit, either:"));
  }
  const auto all = std::count_if(parameters.begin(), parameters.end(), [](const auto& each) { return is_bias(each.first); });
  const bool no_bias = all > 0 && std::count_if(reading.missing.begin(), reading.missing.end(), is_bias) == all;
  if (no_bias) {
    problems.push_back(text("all ", all,
                            " biases are missing, as those of nanoGPT's models with bias=False; the model has "
                            "biases, so add zeros under names such as ",
                            *std::find_if(reading.missing.begin(), reading.missing.end(), is_bias)));
  }
  for (const std::string& name : reading.missing) {
    if (!no_bias || !is_bias(name)) problems.push_back(name + " is missing");
  }
  for (const std::string& name : reading.foreign) problems.push_back(printable(name) + " is no tensor of the model");
  return problems;
}

/// Problems of shapes. Linear weights are transposed in files of programs that compute with PyTorch's nn.Linear.
class Shapes {
 public:
  void add(const std::string& ours, const std::string& theirs, const Shape& found, const Shape& needed) {
    const bool linear = ours.starts_with("transformer.h.") && needed.size() == 2 && needed[0] != needed[1];
    if (found == needed) {
      upright_ = upright_ || linear;
      return;
    }
    const std::string problem =
        text(printable(theirs), " has shape ", shape_text(found), ", the model needs ", shape_text(needed));
    const bool transposed = linear && found == Shape(needed.rbegin(), needed.rend());
    (transposed ? transposed_ : others_).push_back(problem);
  }

  std::vector<std::string> problems() const {
    std::vector<std::string> problems = others_;
    if (upright_ || transposed_.empty()) {
      for (const std::string& problem : transposed_) problems.push_back(problem + ": it is transposed");
    } else {
      problems.insert(
          problems.begin(),
          text("the linear weights are transposed, [outputs, inputs] as nn.Linear has them: ", transposed_.front(),
               "; write .T.contiguous() of every attn.c_attn, attn.c_proj, mlp.c_fc and mlp.c_proj weight, also "
               "of those that are square, as GPT-2 has [inputs, outputs]"));
    }
    return problems;
  }

 private:
  bool upright_ = false;  // Is there a linear weight that is not transposed?
  std::vector<std::string> transposed_, others_;
};

std::vector<std::string> problems_of_tensors(const WeightNames& names, const Parameters& parameters,
                                             const Entries& entries) {
  std::vector<std::string> problems;
  Shapes shapes;
  const auto check = [&](const std::string& ours, const std::string& theirs) {
    const io::SafetensorsEntry& entry = entries.at(theirs);
    shapes.add(ours, theirs, entry.shape, parameters.at(ours));
    const std::string problem = io::dtype_problem(printable(theirs), entry);
    if (!problem.empty()) problems.push_back(problem);
  };
  for (const auto& [ours, theirs] : names.in_file) check(ours, theirs);
  for (const WeightNames::Copy& copy : names.copies) check(copy.ours, copy.other);
  const std::vector<std::string> of_shapes = shapes.problems();
  problems.insert(problems.begin(), of_shapes.begin(), of_shapes.end());
  return problems;
}

}  // namespace

WeightNames match_names(const model::ModelOptions& options, const Entries& entries, const std::string& source) {
  Parameters parameters;
  for (const model::UnitLayout& unit : model::layout(options)) {
    for (const model::Parameter& parameter : unit.parameters) parameters[parameter.name] = parameter.shape;
  }
  Reading reading = best_reading(options, parameters, entries);
  const std::string another = problem_of_another_model(reading, parameters);
  require_input(another.empty(), source, ": ", another);
  std::vector<std::string> problems = problems_of_names(reading, parameters);
  const std::vector<std::string> of_tensors = problems_of_tensors(reading.names, parameters, entries);
  problems.insert(problems.end(), of_tensors.begin(), of_tensors.end());
  std::string lines;
  for (const std::string& problem : problems) lines += (lines.empty() ? "" : "\n") + source + ": " + problem;
  require_input(lines.empty(), lines);
  // A prefix that the names may have anyway is not worth a note.
  if (!reading.prefix.empty()) {
    reading.names.note = text(source, ": all names begin with ", quoted(reading.prefix), "; read without it");
  }
  return reading.names;
}

}  // namespace shoal::app
