// SPDX-License-Identifier: Apache-2.0
// The only file that includes Boost. Boost splits the words into names and values. Its guessing of abbreviations is switched
// off, and it does not convert values ("-1" would become 4294967295).
#include "config/input/command_line.hpp"

#include <algorithm>
#include <boost/program_options.hpp>
#include <boost/version.hpp>
#include <map>
#include <set>

#include "shoal/base/error.hpp"
#include "shoal/config/table.hpp"

namespace shoal::config {

namespace po = boost::program_options;

namespace {

/// The names of all options of a command line; true for a switch.
using Known = std::map<std::string, bool>;

Known known_options(const CommandSpec& command) {
  static const Options defaults;
  Known known = {{"help", true}};
  if (command.checks) known.insert({{"dry-run", true}, {"print-config", true}, {"ranks", false}});
  for (const CommandSpec::Own& own : command.own) known[own.name] = std::holds_alternative<bool>(own.value);
  if (command.options) {
    known["deepspeed"] = false;
    for (const Row& row : table()) known[row.name] = std::holds_alternative<bool>(row.member.get(defaults));
  }
  return known;
}

/// Appends =true to each switch without a value: Boost would take the next word for its value.
std::vector<std::string> completed(const Known& known, int argc, const char* const* argv) {
  std::vector<std::string> words(argv, argv + argc);
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const auto option = known.find(words[i].starts_with("--") ? words[i].substr(2) : std::string());
    if (option == known.end() || !option->second) continue;
    const bool has_value = i + 1 < words.size() && read(words[i + 1], any(), Value(false), option->first).value;
    if (!has_value) words[i] += "=true";
  }
  return words;
}

std::string unknown(const CommandSpec& command, const Known& known, const std::string& name) {
  std::vector<std::string> own;
  for (const auto& [option, is_switch] : known) {
    if (find(option) == nullptr) own.push_back("--" + option);
  }
  const std::string close = nearest("--" + name, own);
  if (!close.empty()) return "unknown option; did you mean " + close + "?";
  return command.options ? unknown_option(name) : "unknown option; allowed: " + joined(own);
}

/// The name in a word, without dashes and value: "--name=value", "-n".
std::string name_in(const std::string& word) {
  const std::size_t begin = std::min(word.find_first_not_of('-'), word.size());
  return word.substr(begin, word.find('=') == std::string::npos ? std::string::npos : word.find('=') - begin);
}

/// Describes an error of Boost in our words.
std::string problem_of(const po::invalid_syntax& error) {
  const std::string name = "command line: " + name_in(error.get_option_name());
  switch (error.kind()) {
    case po::invalid_syntax::missing_parameter: return name + ": no value; expected --name=value";
    case po::invalid_syntax::empty_adjacent_parameter:
      return name + ": no value after =; an empty one is written --name \"\"";
    default: return name + ": " + error.what();
  }
}

}  // namespace

CommandLine read_command_line(const CommandSpec& command, int argc, const char* const* argv) {
  const Known known = known_options(command);
  po::options_description description;
  for (const auto& [name, is_switch] : known) description.add_options()(name.c_str(), po::value<std::string>(), "");
  CommandLine line;
  std::vector<po::option> found;
  try {
    namespace style = po::command_line_style;
    found = po::command_line_parser(completed(known, argc, argv))
                .options(description)
                .style(style::allow_long | style::long_allow_adjacent | style::long_allow_next)
                .allow_unregistered()
                .run()
                .options;
  } catch (const po::invalid_syntax& error) {
    line.problems.push_back(problem_of(error));
  } catch (const po::error& error) {
    line.problems.push_back(text("command line: ", error.what()));
  }
  line.unclear = !line.problems.empty();
  std::set<std::string> seen;
  for (const po::option& option : found) {
    const std::string word = option.original_tokens.empty() ? std::string() : option.original_tokens.front();
    if (option.position_key != -1 && !word.starts_with('-')) {
      line.positionals.push_back(option.value.front());
    } else if (option.unregistered || option.position_key != -1) {
      const std::string name = shown(name_in(word));
      line.unclear = line.unclear || word.find('=') == std::string::npos;
      line.problems.push_back("command line: " + name + ": " + unknown(command, known, name));
    } else if (option.string_key == "help") {
      const std::string& form = option.value.front();
      line.help_as_markdown = line.help_as_markdown || form == "markdown";
      line.help = line.help || form == "true" || form == "markdown";
      if (!line.help) line.problems.push_back("command line: help = " + shown(form) + ": no such form; allowed: markdown");
    } else if (!seen.insert(option.string_key).second) {
      line.problems.push_back("command line: " + option.string_key + ": given twice");
    } else {
      line.options.push_back({option.string_key, option.value.front()});
    }
  }
  return line;
}

std::pair<std::string, std::string> library_version() {
  return {"Boost.Program_options", text(BOOST_VERSION / 100000, ".", BOOST_VERSION / 100 % 1000, ".", BOOST_VERSION % 100)};
}

}  // namespace shoal::config
