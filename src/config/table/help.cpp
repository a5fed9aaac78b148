// SPDX-License-Identifier: Apache-2.0
// The help of a command, for a terminal and as Markdown. All of it comes from the table of options and the command's
// specification.
#include <algorithm>
#include <cmath>

#include "shoal/base/error.hpp"
#include "shoal/config/options.hpp"
#include "shoal/config/table.hpp"
#include "shoal/config/wall_time.hpp"

namespace shoal::config {

namespace {

constexpr std::size_t page_width = 100, name_width = 38;

constexpr const char* of_absent_features =
    "A run that sets one of these options to another value than its default ends with an error.";

/// One option of the page.
struct Entry {
  std::string name;    ///< without the dashes
  std::string what;    ///< what it does
  std::string values;  ///< "steps, at least 1"; empty: a switch of the command line
  std::string usual;   ///< "default 100"; empty: none
  std::string when;    ///< when to change it; may be empty
};

struct Section {
  std::string title;  ///< "[model]"
  std::string intro;  ///< a sentence; may be empty
  std::vector<Entry> entries;
};

/// ", at least 1", ", 0 to below 1". Upper bounds that nobody reaches are left out; a refusal shows them.
std::string short_bounds(const Allowed& allowed, bool whole) {
  constexpr double out_of_reach = 65536;
  const auto number = [](double value) { return print(Value(value), {}); };
  const bool low = std::isfinite(allowed.low) && !(whole && allowed.low == 0), high = allowed.high < out_of_reach;
  if (high && std::isfinite(allowed.low))
    return text(", ", number(allowed.low), allowed.high_open ? " to below " : " to ", number(allowed.high));
  return low ? text(allowed.low_open ? ", above " : ", at least ", number(allowed.low)) : std::string();
}

/// The values of an option, for somebody who chooses one: "steps, at least 1", "fp32, bf16, fp16", "true or false".
std::string values_of(const std::string& unit, const Allowed& allowed, const Value& type) {
  if (std::holds_alternative<bool>(type)) return "true or false";
  const std::string leading = unit.empty() ? "" : unit + ": ";
  if (!allowed.choices.empty()) return leading + joined(allowed.choices) + (allowed.count ? ", or a whole number" : "");
  if (std::holds_alternative<std::string>(type)) return leading + (allowed.text.empty() ? "text" : allowed.text);
  const bool whole = !std::holds_alternative<double>(type);
  return (unit.empty() ? (whole ? "whole number" : "number") : unit) + short_bounds(allowed, whole) +
         (allowed.wall_time ? text(", or ", wall_time_forms) : std::string()) +
         (allowed.word.empty() ? "" : ", or " + allowed.word);
}

/// Distinguishes an empty default from no default.
std::string shown_default(const std::string& value) { return "default " + (value.empty() ? "empty" : value); }

Entry entry_of(const Row& row) {
  static const Options defaults;
  Entry entry{row.name, row.help.what, values_of(row.unit, row.allowed, row.member.get(defaults)),
              shown_default(default_text(row)), row.help.when};
  if (!row.allowed.not_built.empty()) entry.values += "; not built yet: " + joined(row.allowed.not_built);
  return entry;
}

Entry entry_of(const CommandSpec::Own& own) {
  return {own.name, own.help, values_of(own.unit, own.allowed, own.value), shown_default(print(own.value, own.allowed)), {}};
}

/// Section by section; options that are not built come last, together.
std::vector<Section> option_sections() {
  std::vector<Section> result;
  Section absent = {"Not built yet", of_absent_features, {}};
  for (const std::string& name : sections()) {
    Section section = {"[" + name + "]", {}, {}};
    for (const Row& row : table()) {
      if (section_of(row.name) == name) (row.built ? section : absent).entries.push_back(entry_of(row));
    }
    if (!section.entries.empty()) result.push_back(std::move(section));
  }
  result.push_back(std::move(absent));
  return result;
}

/// The command's own arguments and options, in addition to the options of decks.
std::vector<Entry> own_entries(const CommandSpec& command) {
  std::vector<Entry> entries;
  for (const CommandSpec::Own& own : command.own) entries.push_back(entry_of(own));
  if (command.checks) {
    entries.push_back({"dry-run", "check all that can be checked without training, then end", {}, {}, {}});
    entries.push_back(
        {"print-config", "print the resolved options as a deck that gives the same run, then end", {}, {}, {}});
    entries.push_back({"ranks",
                       "with --dry-run or --print-config: pretend that this many ranks were started",
                       "ranks, at least 1",
                       "default: as many as were started",
                       {}});
  }
  if (command.options) {
    entries.push_back({"deepspeed",
                       "take options from a DeepSpeed configuration (ds_config.json). The command line overrides it; a deck "
                       "that disagrees with it is an error. The log lists the keys that have no effect",
                       "path of a file",
                       {},
                       {}});
  }
  entries.push_back({"help", "print this page; --help=markdown: as tables in Markdown", {}, {}, {}});
  return entries;
}

bool lists_all_options(const CommandSpec& command) { return command.options && command.checks; }

std::string usage(const CommandSpec& command) {
  std::string line = "usage: shoal " + command.name;
  for (const std::string& argument : command.arguments) line += " " + argument;
  if (!command.own.empty()) line += " [--name=value ...]";
  if (command.options) line += " [--deepspeed FILE] [--section.name=value ...]";
  return line + "\n" + command.summary + "\n";
}

/// The words of `what` after `line`, broken at spaces and indented.
std::string filled(std::string line, std::size_t indent, const std::string& what) {
  std::string result;
  for (std::size_t begin = 0; begin < what.size();) {
    const std::size_t end = std::min(what.find(' ', begin), what.size());
    const std::string word = what.substr(begin, end - begin);
    if (line.size() + word.size() > page_width) {
      result += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
      line = std::string(indent, ' ');
    }
    line += word + " ";
    begin = end + 1;
  }
  return result + line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

/// "depth [blocks, 1 to 1024; default 4]. Raise it ...".
std::string in_one_line(const Entry& entry) {
  std::string brackets = entry.values;
  if (!entry.usual.empty()) brackets += (brackets.empty() ? "" : "; ") + entry.usual;
  return entry.what + (brackets.empty() ? "" : " [" + brackets + "]") + (entry.when.empty() ? "" : ". " + entry.when);
}

std::string on_a_page(const std::vector<Entry>& entries) {
  std::string page;
  for (const Entry& entry : entries) {
    std::string line = "  --" + entry.name;
    line += line.size() + 2 > name_width ? "  " : std::string(name_width - line.size(), ' ');
    page += filled(line, name_width, in_one_line(entry));
  }
  return page;
}

std::string in_a_table(const std::vector<Entry>& entries, const std::string& dashes) {
  std::string rows = "| option | values | what it does; when to change it |\n|---|---|---|\n";
  for (const Entry& entry : entries) {
    const std::string values = entry.values + (entry.usual.empty() ? "" : (entry.values.empty() ? "" : "; ") + entry.usual);
    rows += text("| `", dashes, entry.name, "` | ", values, " | ", entry.what, entry.when.empty() ? "" : ". ", entry.when,
                 " |\n");
  }
  return rows;
}

}  // namespace

std::string help(const CommandSpec& command) {
  std::string page = usage(command) + "\n" + on_a_page(own_entries(command));
  if (!command.options) return page;
  page +=
      "\nOptions of decks: --section.name=value here, or name = value under [section] in a deck. The command\n"
      "line overrides the deck, and the deck overrides the defaults. Names cannot be abbreviated.\n";
  if (!lists_all_options(command)) return page + "`shoal train --help` lists these options.\n";
  for (const Section& section : option_sections()) {
    page += "\n" + section.title + "\n";
    if (!section.intro.empty()) page += filled("", 0, section.intro);
    page += on_a_page(section.entries);
  }
  return page;
}

std::string help_as_markdown(const CommandSpec& command) {
  std::string page = "### On the command line of `shoal " + command.name + "`\n\n" + in_a_table(own_entries(command), "--");
  if (!lists_all_options(command)) return page;
  for (const Section& section : option_sections()) {
    page += "\n### " + section.title + "\n\n";
    if (!section.intro.empty()) page += section.intro + "\n\n";
    page += in_a_table(section.entries, "");
  }
  return page;
}

}  // namespace shoal::config
