// SPDX-License-Identifier: Apache-2.0
// Precedence: defaults < deck < DeepSpeed's configuration < command line.
#include "config/input/deepspeed_apply.hpp"

#include <algorithm>
#include <map>

#include "config/deepspeed/deepspeed.hpp"
#include "config/json/json.hpp"
#include "shoal/base/error.hpp"
#include "shoal/config/table.hpp"

namespace shoal::config {

namespace {

/// Settings of the file so far, by option, to find two keys that contradict each other.
using ExplicitSettings = std::map<std::string, const DeepSpeedSetting*>;

std::string shown_value(const Row& row, const Value& value) { return shown(print(value, row.allowed)); }

void apply(const DeepSpeedSetting& setting, const Deck& deck, ExplicitSettings& seen, Invocation& invocation,
           std::vector<std::string>& problems) {
  const Row& row = *find(setting.option);
  if (setting.is_explicit) {
    const auto [first, fresh] = seen.emplace(setting.option, &setting);
    if (!fresh && first->second->value != setting.value) {
      problems.push_back(text(setting.place, ": ", row.name, " = ", shown_value(row, setting.value), ", but ",
                              first->second->place, " gives ", shown_value(row, first->second->value)));
    }
  }
  const std::string in_deck = deck.places.of(row.name);
  if (!in_deck.empty() && setting.value != row.member.get(deck.options)) {
    if (!setting.is_explicit) return;
    problems.push_back(text(in_deck, ": ", row.name, " = ", shown(value_text(row, deck.options)), ", but ", setting.place,
                            " gives ", shown_value(row, setting.value), "; remove one of the two"));
    return;
  }
  if (!invocation.places.of(row.name).empty()) return;  // the command line overrides it, or the deck has the same value
  row.member.set(invocation.options, setting.value);
  invocation.places.set(row.name, setting.place);
}

}  // namespace

void apply_deepspeed(const std::string& path, const Deck& deck, Invocation& invocation, std::vector<std::string>& problems) {
  DeepSpeedTranslation file = translate_deepspeed(read_json(path), path, invocation.options, invocation.places);
  problems.insert(problems.end(), file.problems.begin(), file.problems.end());
  if (!file.problems.empty()) return;
  ExplicitSettings seen;
  for (const bool is_explicit : {true, false}) {
    for (const DeepSpeedSetting& setting : file.settings) {
      if (setting.is_explicit == is_explicit) apply(setting, deck, seen, invocation, problems);
    }
  }
  invocation.deepspeed = true;
  invocation.notes = std::move(file.notes);
  invocation.deepspeed_rest = file.rest;
  invocation.deepspeed_absent = std::move(file.absent);
}

}  // namespace shoal::config
