// SPDX-License-Identifier: Apache-2.0
// From the command line to an Invocation. Precedence: defaults < deck < DeepSpeed configuration < command line.
#include <algorithm>
#include <optional>

#include "config/input/command_line.hpp"
#include "config/input/deepspeed_apply.hpp"
#include "config/table/limits.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/error.hpp"
#include "shoal/config/deck.hpp"
#include "shoal/config/options.hpp"
#include "shoal/config/table.hpp"

namespace shoal::config {

namespace {

bool may_be_absent(const std::string& argument) { return argument.starts_with('['); }
bool may_repeat(const std::string& argument) { return argument.ends_with("..."); }
bool is_deck(const std::string& argument) { return argument == "DECK" || argument == "[DECK]"; }

std::string allowed_counts(std::size_t least, std::size_t most, bool unlimited) {
  if (unlimited) return text("at least ", least);
  return least == most ? text(least) : text(least, " to ", most);
}

/// Assigns the words on the line to the arguments of the command.
void place_arguments(const CommandSpec& command, const std::vector<std::string>& words, Invocation& invocation,
                     std::vector<std::string>& problems) {
  const auto& wanted = command.arguments;
  const auto optional = static_cast<std::size_t>(std::count_if(wanted.begin(), wanted.end(), may_be_absent));
  const bool unlimited = std::any_of(wanted.begin(), wanted.end(), may_repeat);
  const std::size_t least = wanted.size() - optional;
  if (words.size() < least || (words.size() > wanted.size() && !unlimited)) {
    std::string form = "shoal " + command.name;
    for (const std::string& argument : wanted) form += " " + argument;
    problems.push_back(text("command line: ", counted(words.size(), "argument"), ", expected ",
                            allowed_counts(least, wanted.size(), unlimited), ": ", form));
    return;
  }
  std::size_t absent = wanted.size() > words.size() ? wanted.size() - words.size() : 0, word = 0;
  for (const std::string& argument : wanted) {
    if (may_be_absent(argument) && absent > 0) {
      --absent;
      continue;
    }
    const std::size_t repeats = may_repeat(argument) && words.size() > wanted.size() ? words.size() - wanted.size() + 1 : 1;
    for (std::size_t i = 0; i < repeats; ++i, ++word) {
      if (is_deck(argument)) {
        invocation.deck = words[word];
      } else {
        invocation.arguments.push_back(words[word]);
      }
    }
  }
}

/// Reads one value. A problem names the option as on the command line.
std::optional<Value> read_given(const CommandLine::Given& given, const Allowed& allowed, const Value& type,
                                std::vector<std::string>& problems) {
  Reading reading = read(given.value, allowed, type, given.name);
  if (!reading.value)
    problems.push_back("command line: " + refusal(given.name, given.value, reading.problem, allowed, type));
  return std::move(reading.value);
}

void apply(const CommandSpec& command, const CommandLine::Given& given, Invocation& invocation,
           std::vector<std::string>& problems) {
  if (const Row* const row = find(given.name)) {
    const auto value = read_given(given, row->allowed, row->member.get(invocation.options), problems);
    if (!value) return;
    row->member.set(invocation.options, *value);
    invocation.places.set(given.name, "command line");
    return;
  }
  for (const CommandSpec::Own& own : command.own) {
    if (own.name != given.name) continue;
    if (const auto value = read_given(given, own.allowed, own.value, problems)) invocation.own_values[own.name] = *value;
    invocation.places.set(own.name, "command line");
    return;
  }
  if (given.name == "deepspeed") return;  // read last, when all other options are known
  const bool is_ranks = given.name == "ranks";
  const Value type = is_ranks ? Value(std::int64_t{0}) : Value(false);
  const auto value = read_given(given, is_ranks ? between(1, most_ranks) : any(), type, problems);
  if (!value) return;
  if (is_ranks) invocation.ranks = static_cast<int>(std::get<std::int64_t>(*value));
  if (given.name == "dry-run") invocation.dry_run = std::get<bool>(*value);
  if (given.name == "print-config") invocation.print_config = std::get<bool>(*value);
}

}  // namespace

Invocation parse(const CommandSpec& command, int argc, const char* const* argv) {
  const CommandLine line = read_command_line(command, argc, argv);
  Invocation invocation;
  if (line.help) {
    invocation.help = true;
    invocation.help_as_markdown = line.help_as_markdown;
    return invocation;
  }
  for (const CommandSpec::Own& own : command.own) invocation.own_values[own.name] = own.value;

  std::vector<std::string> problems, on_the_line = line.problems;
  if (!line.unclear) place_arguments(command, line.positionals, invocation, on_the_line);
  const Deck deck = invocation.deck.empty() ? Deck() : read_deck(invocation.deck, command.own);
  invocation.options = deck.options;
  invocation.places = deck.places;
  for (const auto& [name, value] : deck.own) invocation.own_values[name] = value;
  problems = deck.problems;
  for (const CommandLine::Given& given : line.options) apply(command, given, invocation, on_the_line);
  for (const CommandLine::Given& given : line.options) {
    if (given.name == "deepspeed") apply_deepspeed(given.value, deck, invocation, problems);
  }
  if (invocation.options.train.stop_after == TrainOptions::as_the_job) {
    invocation.deck_stop_after = std::max(0.0, deck.options.train.stop_after);
  }
  problems.insert(problems.end(), on_the_line.begin(), on_the_line.end());

  std::string message;
  for (const std::string& problem : problems) message += (message.empty() ? "" : "\n") + problem;
  require_input(problems.empty(), message);

  for (const Row& row : table()) {
    if (!is_built(row, invocation.options)) invocation.not_built.push_back(row.name);
  }
  for (const DeepSpeedAbsent& absent : invocation.deepspeed_absent) invocation.not_built.push_back(absent.key);
  return invocation;
}

}  // namespace shoal::config
