// SPDX-License-Identifier: Apache-2.0
#include "app/study/points.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <set>

#include "app/bench/bench_file.hpp"
#include "app/plan/strategies.hpp"
#include "app/setup/open_data.hpp"
#include "app/study/planner.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/hash.hpp"
#include "shoal/config/table.hpp"
#include "shoal/config/value.hpp"

namespace shoal::app {

namespace {

/// Options that the study sets, so that neither its deck nor a strategy may.
constexpr std::array of_the_study = {"output.overwrite",  "output.export", "checkpoint.dir",
                                     "checkpoint.resume", "trace.file",    "comm.ranks_per_node"};
/// Options by which the results of two runs may differ in their place, but not in what was measured.
constexpr std::array of_no_identity = {"output.dir",        "output.overwrite", "output.export", "checkpoint.dir",
                                       "checkpoint.resume", "checkpoint.last",  "trace.file",    "train.stop_after"};

template <typename Names>
bool is_one_of(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void set_option(StudyVariant& variant, const std::string& where, const std::string& name, const std::string& value) {
  const config::Row* const row = config::find(name);
  require_input(row != nullptr, where, config::shown(name), ": ",
                row == nullptr ? config::unknown_option(config::shown(name)) : "");
  require_input(!is_one_of(of_the_study, name) && name != "output.dir" && name != "batch.global", where, name,
                ": the study sets it; allowed: other options");
  const config::Value type = row->member.get(variant.asked.options);
  const config::Reading reading = config::read(value, row->allowed, type, name);
  require_input(reading.value.has_value(), where,
                reading.value ? "" : config::refusal(name, value, reading.problem, row->allowed, type));
  row->member.set(variant.asked.options, *reading.value);
  variant.asked.places.set(name, variant.asked.places.of("study.strategies"));
}

StudyVariant variant_of(const config::Invocation& study, const StudyStrategy& strategy, MicroBatch micro) {
  StudyVariant variant = {strategy.text, study};
  const std::string place = study.places.of("study.strategies");
  const std::string where = text(place.empty() ? "" : place + ": ", "study.strategies: ", strategy.text, ": ");
  config::Options& options = variant.asked.options;
  options = strategy_named(study.options, strategy.name).value().options;
  // A study measures: it keeps the weights of its many runs only if it is told to.
  if (study.places.of("checkpoint.last").empty()) options.checkpoint.last = false;
  std::set<std::string> on_top;
  for (const auto& [name, value] : strategy.options) {
    on_top.insert(name);
    require_input(micro == MicroBatch::fixed || name != "batch.micro", where,
                  "batch.micro: the study sets it (study.micro = largest); allowed: other options");
    set_option(variant, where, name, value);
  }
  const bool other_stages = options.pipeline.size != study.options.pipeline.size;
  if (other_stages && on_top.count("pipeline.balance") == 0) options.pipeline.balance = "auto";
  if (strategy.name != own_strategy) forget_unused(options, on_top);
  set_vocab_size(options);
  return variant;
}

/// batch.global of a point; 0: batch.micro times the ranks, whatever the micro-batch is.
std::size_t global_batch(const config::Options& deck, Scaling scaling, int ranks, int fewest) {
  const std::size_t global = deck.batch.global;
  if (scaling == Scaling::strong) {
    require_input(global != 0, "study.scaling = strong needs a batch.global, which is 0; allowed: the batch of all points");
    return global;
  }
  const std::size_t times = global * static_cast<std::size_t>(ranks);
  require_input(times % static_cast<std::size_t>(fewest) == 0, "study.scaling = weak: batch.global = ", global, " of ",
                counted(fewest, "rank"), " cannot be scaled to ", counted(ranks, "rank"),
                "; allowed: multiples of the fewest ranks, or batch.global = 0 for batch.micro x ranks");
  return times / static_cast<std::size_t>(fewest);
}

/// The text as a name of files: other characters become _.
std::string file_name(const std::string& words) {
  std::string name;
  for (const char c : words) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '+' || c == '.' || c == '-' || c == '_';
    name += plain ? c : '_';
  }
  return name;
}

/// A name that depends on nothing but the strategy, so that its results are found again whatever else the list has. Where
/// the name does not tell the strategy, because the text is long or has a value like "a/b", a hash of the whole text does.
std::string file_name(const StudyStrategy& strategy) {
  constexpr std::size_t longest = 60;
  const auto is_kept = [](const auto& option) { return file_name(option.second) == option.second; };
  const bool told = std::all_of(strategy.options.begin(), strategy.options.end(), is_kept);
  std::string name = file_name(strategy.text);
  if (told && name.size() <= longest) return name;
  std::array<char, 9> digits{};
  std::snprintf(digits.data(), digits.size(), "%08llx", static_cast<unsigned long long>(hash_of(strategy.text) >> 32U));
  return name.substr(0, longest) + "-" + digits.data();
}

/// Names say all by which points of one study differ.
void name_points(std::vector<StudyPoint>& points, const StudyRequest& request) {
  std::map<std::string, std::string> names, texts;
  for (const StudyStrategy& strategy : request.strategies) {
    const std::string name = names[strategy.text] = file_name(strategy);
    const auto [other, is_new] = texts.emplace(name, strategy.text);
    require_input(is_new, "study.strategies: ", other->second, " and ", strategy.text, " have the same name of files, ",
                  name, "; allowed: one of them, or the options in another order");
  }
  for (StudyPoint& point : points) {
    point.name = text(names.at(point.strategy), "-n", point.grid.nodes, "x", point.grid.ranks_per_node, "-b",
                      point.options.batch.micro, "-g", point.options.batch.global, "-r", point.repeat);
  }
}

/// Each line of an error with what it belongs to in front of it.
std::string prefixed(const std::string& prefix, const std::string& lines) {
  std::string result;
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', begin), lines.size());
    result += (result.empty() ? "" : "\n") + prefix + lines.substr(begin, end - begin);
    begin = end + 1;
  }
  return result;
}

/// If the point is among them, because two curves share it, notes that it belongs to this one, too.
bool joins(std::vector<StudyPoint>& points, const StudyPoint& point, Scaling scaling) {
  bool found = false;
  for (StudyPoint& other : points) {
    if (other.strategy != point.strategy || !(other.grid == point.grid)) continue;
    if (other.options.batch.global != point.options.batch.global) continue;
    other.scalings.push_back(scaling);
    found = true;
  }
  return found;
}

void require_options_of_the_study(const config::Invocation& study) {
  require_input(!study.deepspeed,
                "study: --deepspeed is not passed on; allowed: the deck that `shoal train --deepspeed FILE "
                "--print-config` prints");
  for (const char* const name : of_the_study) {
    const std::string place = study.places.of(name);
    require_input(place.empty(), place, ": ", name, ": the study sets it for each point; allowed: a study without it");
  }
}

}  // namespace

std::optional<TimeModel> study_times(const config::Invocation& study, const StudyRequest& request) {
  if (request.network.empty()) return std::nullopt;
  TimeModel model;
  model.machine = read_bench_file(request.network, text(study.places.of("study.network"), ": study.network ="));
  model.source = request.network;
  return model;
}

std::vector<StudyPoint> study_points(const config::Invocation& study, const StudyRequest& request,
                                     const std::optional<TimeModel>& times) {
  require_options_of_the_study(study);
  const int fewest = std::min_element(request.grids.begin(), request.grids.end(), [](const auto& a, const auto& b) {
                       return a.ranks() < b.ranks();
                     })->ranks();
  const PointPlanner planner(request, times);
  std::vector<StudyPoint> points;
  std::string problems;
  std::set<std::string> said;  // what is wrong on every grid is said of the first
  for (const StudyStrategy& strategy : request.strategies) {
    const StudyVariant variant = variant_of(study, strategy, request.micro);
    for (const Scaling scaling : request.scalings) {
      for (const StudyGrid& grid : request.grids) {
        try {
          const std::size_t global = global_batch(variant.asked.options, scaling, grid.ranks(), fewest);
          StudyPoint point = planner.point(variant, grid, global);
          if (joins(points, point, scaling)) continue;
          point.scalings = {scaling};
          for (point.repeat = 1; point.repeat <= request.repeats; ++point.repeat) points.push_back(point);
        } catch (const Error& error) {
          if (error.code() != Exit::bad_input) throw;
          if (!said.insert(strategy.text + error.what()).second) continue;
          const std::string prefix = text("study: ", strategy.text, ", ", name_of(scaling), " scaling, ",
                                          counted(grid.nodes, "node"), " x ", counted(grid.ranks_per_node, "rank"), ": ");
          problems += (problems.empty() ? "" : "\n") + prefixed(prefix, error.what());
        }
      }
    }
  }
  require_input(problems.empty(), problems);
  name_points(points, request);
  return points;
}

bool is_of_identity(const std::string& option) { return !is_one_of(of_no_identity, option); }

std::map<std::string, std::string> identity_of(const config::Options& options) {
  std::map<std::string, std::string> identity;
  for (const auto& [name, value] : config::list(options)) {
    if (is_of_identity(name)) identity[name] = value;
  }
  return identity;
}

}  // namespace shoal::app
