// SPDX-License-Identifier: Apache-2.0
// The table of options, one row per option. The command line, the deck, the help, the list of options in the log and the
// attributes of the trace are made from it. A new option is a member in the options struct of its folder and a row in
// src/config/rows_*.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shoal/config/row.hpp"

namespace shoal::config {

/// All rows, section by section, in the order in which the help and printed decks list them.
const std::vector<Row>& table();
/// The row of this name; nullptr if there is none.
const Row* find(std::string_view name);
std::vector<std::string> sections();
/// "model" of "model.n_embd".
std::string section_of(std::string_view name);
/// "n_embd" of "model.n_embd".
std::string key_of(std::string_view name);

/// The value of the option as text, and its default as text.
std::string value_text(const Row& row, const Options& options);
std::string default_text(const Row& row);
/// Returns true if the option has an effect with the values of the options that decide about that in the table.
bool is_used(const Row& row, const Options& options);
/// Returns true if the feature behind the current value exists.
bool is_built(const Row& row, const Options& options);

/// "unknown option; did you mean zero.stage?", or the options of the section if no name is similar.
std::string unknown_option(const std::string& name);

}  // namespace shoal::config
