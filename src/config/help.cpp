// SPDX-License-Identifier: Apache-2.0
// The help, made of the table: nothing here names an option that has a row.
#include <algorithm>

#include "shoal/config/options.hpp"
#include "shoal/config/table.hpp"

namespace shoal::config {

namespace {

constexpr std::size_t page_width = 100, name_width = 38;

/// "  --name    explanation", broken at spaces and indented to the second column.
std::string entry(const std::string& name, const std::string& explanation) {
  std::string result, line = "  --" + name;
  line += line.size() + 2 > name_width ? "  " : std::string(name_width - line.size(), ' ');
  for (std::size_t begin = 0; begin < explanation.size();) {
    const std::size_t end = std::min(explanation.find(' ', begin), explanation.size());
    const std::string word = explanation.substr(begin, end - begin);
    if (line.size() + word.size() > page_width) {
      result += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
      line = std::string(name_width, ' ');
    }
    line += word + " ";
    begin = end + 1;
  }
  return result + line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

/// "depth [blocks; whole numbers of at least 1; default 4]".
std::string explain(const std::string& help, const std::string& unit, const std::string& allowed, const std::string& usual) {
  const std::string deflt = usual.empty() ? "" : "; default " + quoted_if_needed(usual);
  return help + " [" + (unit.empty() ? "" : unit + "; ") + allowed + deflt + "]";
}

std::string usage(const CommandSpec& command) {
  std::string line = "usage: shoal " + command.name;
  for (const std::string& argument : command.arguments) line += " " + argument;
  if (!command.own.empty()) line += " [--name=value ...]";
  if (command.options) line += " [--deepspeed FILE] [--section.name=value ...]";
  return line + "\n" + command.summary + "\n";
}

std::string checks() {
  return entry("dry-run", "check everything that can be checked without running") +
         entry("print-config", "print the resolved deck, which read back gives the same run") +
         entry("ranks", "check for N ranks [whole numbers of at least 1; default: as many as were started]");
}

std::string deepspeed() {
  return entry("deepspeed",
               "FILE: a DeepSpeed configuration (ds_config.json), translated to the options below: over the deck, under the "
               "command line. Where deck and FILE give an option different values, that is an error. Sizes counted in "
               "elements become bytes: comm.bucket_mb is 4 bytes an element of reduce_bucket_size. The log says what became "
               "of the keys that are no option");
}

}  // namespace

std::string help() {
  static const Options defaults;
  std::string page, section;
  for (const Row& row : table()) {
    if (section_of(row.name) != section) {
      section = section_of(row.name);
      page += "\n[" + section + "]\n";
    }
    std::string explanation =
        explain(row.help, row.unit, describe(row.allowed, row.member.get(defaults)), default_text(row));
    if (!row.built) explanation += " (not built yet)";
    for (const std::string& value : row.allowed.not_built) explanation += " (not built yet: " + value + ")";
    page += entry(row.name, explanation);
  }
  return page;
}

std::string help(const CommandSpec& command) {
  std::string page = usage(command) + "\n";
  for (const CommandSpec::Own& own : command.own) {
    page += entry(own.name, explain(own.help, own.unit, describe(own.allowed, own.value), print(own.value, own.allowed)));
  }
  if (command.checks) page += checks();
  if (command.options) page += deepspeed();
  page += entry("help", "this page");
  if (!command.options) return page;
  page +=
      "\nOptions: --section.name=value here, or name = value under [section] in a deck. The command line goes\n"
      "before the deck, the deck before the defaults. No abbreviations.\n";
  return page + help();
}

}  // namespace shoal::config
