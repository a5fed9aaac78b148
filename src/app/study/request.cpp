// SPDX-License-Identifier: Apache-2.0
#include "app/study/request.hpp"

#include <algorithm>
#include <string_view>

#include "app/plan/strategies.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/notation.hpp"
#include "shoal/config/value.hpp"
#include "shoal/config/wall_time.hpp"

namespace shoal::app {

namespace {

/// "a.cfg:3: study.nodes = 1,x": the beginning of a message.
std::string named(const config::Invocation& invocation, const std::string& option) {
  const std::string place = invocation.places.of(option);
  return text(place.empty() ? "" : place + ": ", option, " = ", config::shown(invocation.own<std::string>(option)));
}

/// The words between separators, without the spaces around them.
std::vector<std::string> split(std::string_view list, char separator) {
  std::vector<std::string> words;
  while (true) {
    const std::size_t end = std::min(list.find(separator), list.size());
    words.emplace_back(config::trimmed(list.substr(0, end)));
    if (end == list.size()) return words;
    list.remove_prefix(end + 1);
  }
}

std::vector<int> numbers(const config::Invocation& invocation, const std::string& option) {
  const std::string place = invocation.places.of(option);
  return rank_counts(invocation.own<std::string>(option), text(place.empty() ? "" : place + ": ", option, " = "));
}

std::vector<StudyGrid> grids(const config::Invocation& invocation) {
  const char* const of_nodes = "study.nodes";
  const std::string where = invocation.deck;
  require_input(!invocation.own<std::string>(of_nodes).empty(), where,
                ": a study without points: study.nodes is empty; allowed: numbers of nodes, as 1,2,4");
  const std::vector<int> nodes = numbers(invocation, of_nodes), on_node = numbers(invocation, "study.ranks_per_node");
  require_input(nodes.size() == on_node.size() || nodes.size() == 1 || on_node.size() == 1, named(invocation, of_nodes),
                " has ", nodes.size(), " numbers and study.ranks_per_node ", on_node.size(),
                "; allowed: as many, which belong together in pairs, or only one of one of them");
  std::vector<StudyGrid> result;
  for (std::size_t i = 0; i < std::max(nodes.size(), on_node.size()); ++i) {
    const StudyGrid grid = {nodes[nodes.size() == 1 ? 0 : i], on_node[on_node.size() == 1 ? 0 : i]};
    constexpr std::int64_t most_ranks = 16384;  // each is simulated
    require_input(std::int64_t{grid.nodes} * grid.ranks_per_node <= most_ranks, named(invocation, of_nodes), ": ",
                  grid.nodes, " x ", grid.ranks_per_node, " ranks; allowed: up to ", most_ranks);
    require_input(std::find(result.begin(), result.end(), grid) == result.end(), named(invocation, of_nodes), ": ",
                  grid.nodes, " x ", grid.ranks_per_node, " ranks twice");
    result.push_back(grid);
  }
  return result;
}

/// "stage 3 a.b=c d.e=f": the words up to the first with an = are the name.
StudyStrategy strategy(const config::Invocation& invocation, const std::string& entry) {
  const std::string begin = named(invocation, "study.strategies");
  const std::vector<std::string> known = strategy_names();
  StudyStrategy result;
  for (const std::string& word : split(entry, ' ')) {
    if (word.empty()) continue;
    result.text += (result.text.empty() ? "" : " ") + word;
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos) {
      const std::string option = word.substr(0, equals);
      result.options.emplace_back(option.starts_with("--") ? option.substr(2) : option, word.substr(equals + 1));
    } else {
      require_input(result.options.empty(), begin, ": ", config::shown(word),
                    " follows an option; allowed: section.key=value");
      result.name += (result.name.empty() ? "" : " ") + word;
    }
  }
  require_input(!result.text.empty(), begin, ": a strategy is missing between two commas");
  if (result.name.empty()) result.name = own_strategy;
  if (std::find(known.begin(), known.end(), result.name) == known.end()) {
    const std::string close = config::nearest(result.name, known);
    bad_input(begin, ": ", config::shown(result.name), ": no such strategy; ",
              close.empty() ? "allowed: " + config::joined(known) : "did you mean " + close + "?",
              " (options may follow, as section.key=value)");
  }
  return result;
}

std::vector<StudyStrategy> strategies_of(const config::Invocation& invocation) {
  std::vector<StudyStrategy> result;
  for (const std::string& entry : split(invocation.own<std::string>("study.strategies"), ',')) {
    result.push_back(strategy(invocation, entry));
    const auto same = [&](const StudyStrategy& other) { return other.text == result.back().text; };
    require_input(std::count_if(result.begin(), result.end(), same) == 1, named(invocation, "study.strategies"), ": ",
                  result.back().text, " twice");
  }
  return result;
}

std::vector<Scaling> scalings(const config::Invocation& invocation) {
  std::vector<Scaling> result;
  for (const std::string& word : split(invocation.own<std::string>("study.scaling"), ',')) {
    const auto scaling = value_named<Scaling>(word);
    require_input(scaling.has_value(), named(invocation, "study.scaling"),
                  ": no such scaling; allowed: strong, weak, or both with a comma");
    require_input(std::find(result.begin(), result.end(), *scaling) == result.end(), named(invocation, "study.scaling"),
                  ": ", word, " twice");
    result.push_back(*scaling);
  }
  return result;
}

}  // namespace

std::vector<config::CommandSpec::Own> study_options() {
  using config::any;
  using config::between;
  using config::not_empty;
  using config::one_of;
  constexpr double most_cores = 1024, most_repeats = 1000;
  return {
      {"study.nodes", std::string{}, "", any().as("a list, in which dots stand for doubling"),
       "numbers of nodes, as 1,2,4 or 1,2,...,64"},
      {"study.ranks_per_node", std::string("1"), "", not_empty().as("one number, or as many as study.nodes has"),
       "ranks on each node"},
      {"study.strategies", std::string(own_strategy), "", not_empty().as("a list with commas"),
       "strategies as `shoal plan` names them, with options on top: stage 1, hpZ, stage 3 activation.checkpoint_interval=1; "
       "deck: the deck's own"},
      {"study.scaling", std::string("strong"), "", not_empty().as("strong, weak, or both with a comma"),
       "strong: batch.global is the deck's; weak: it grows with the ranks, from the fewest ranks of the list"},
      {"study.micro", std::string("fixed"), "", one_of(names<MicroBatch>()),
       "micro-batch: the deck's, or the largest that divides a rank's batch and fits into memory.limit (without that, "
       "into the memory of this machine divided by the ranks on a node); a pipeline keeps one for each stage"},
      {"study.repeats", std::uint64_t{1}, "", between(1, most_repeats), "runs of each point"},
      {"study.system", std::string("local"), "", one_of(names<Launcher>()),
       "what starts the runs: mpiexec on this machine, one after another, or a batch system"},
      {"study.cores_per_rank", std::uint64_t{1}, "cores", between(1, most_cores), "cores, and threads, of a rank"},
      {"study.time", std::string("01:00:00"), "", not_empty().as(config::wall_time_forms), "wall time of a job"},
      {"study.network", std::string{}, "", any().as("a result of `shoal bench comm --output FILE`"),
       "also predict step times on the machine that was measured"}};
}

StudyRequest study_request(const config::Invocation& invocation) {
  StudyRequest request;
  request.launcher = invocation.own_named<Launcher>("study.system");
  request.grids = grids(invocation);
  request.strategies = strategies_of(invocation);
  request.scalings = scalings(invocation);
  request.micro = invocation.own_named<MicroBatch>("study.micro");
  request.repeats = static_cast<int>(invocation.own<std::uint64_t>("study.repeats"));
  request.cores_per_rank = invocation.own<std::uint64_t>("study.cores_per_rank");
  request.network = invocation.own<std::string>("study.network");
  const auto seconds = config::wall_time(invocation.own<std::string>("study.time"));
  require_input(seconds.value_or(0) > 0, named(invocation, "study.time"),
                ": not a wall time; allowed: ", config::wall_time_forms);
  request.seconds = *seconds;
  return request;
}

}  // namespace shoal::app
