// SPDX-License-Identifier: Apache-2.0
// Values of options: what is allowed, how text becomes a value, and how a value becomes text again.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace shoal::config {

/// What an option can hold. The alternative of its default is the option's type.
using Value = std::variant<bool, std::int64_t, std::uint64_t, double, std::string>;

/// What an option may be set to.
struct Allowed {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false;  ///< the bound itself is not allowed
  std::vector<std::string> choices;          ///< empty: not an enumeration
  std::vector<std::string> not_built;        ///< choices whose feature is not there yet
  std::string word;                          ///< "auto": text that stands for `sentinel`
  double sentinel = 0;                       ///< the number outside of the bounds that the word stands for; allowed too
  std::string text;                          ///< of free text: what it is
  bool count = false;                        ///< of text: a whole number of at least 1 is allowed besides the choices
  bool empty = true;                         ///< of text: may be empty

  /// `text` also stands for `value`.
  Allowed or_word(std::string_view text, double value = 0) const;
  /// These choices exist, but their features are not there yet.
  Allowed later(std::vector<std::string> values) const;
  Allowed or_count() const;
  /// Free text, described.
  Allowed as(std::string_view description) const;
};

Allowed any();
Allowed at_least(double low);
Allowed above(double low);
Allowed between(double low, double high);     ///< low <= value <= high
Allowed open(double low, double high);        ///< low < value < high
Allowed from_below(double low, double high);  ///< low <= value < high
Allowed one_of(std::vector<std::string> choices);
Allowed not_empty();

/// "whole numbers of at least 1", "auto, or numbers above 0", "adamw, sgd": for messages and the help.
std::string describe(const Allowed& allowed, const Value& type);

/// The value, or what is wrong with the text ("not a whole number; write 1000").
struct Reading {
  std::optional<Value> value;
  std::string problem;
};
/// type: a value whose alternative is wanted. name: for "no such stage".
Reading read(std::string_view text, const Allowed& allowed, const Value& type, std::string_view name);

/// "model.n_embd = 64x: not a whole number; allowed: whole numbers of at least 1".
std::string refusal(std::string_view name, std::string_view text, const std::string& problem, const Allowed& allowed,
                    const Value& type);

/// Text that read() turns into the same value; numbers in their shortest form that does.
std::string print(const Value& value, const Allowed& allowed);

/// As it stands in a deck: in quotes, with escapes, where it would not survive otherwise.
std::string quoted_if_needed(const std::string& text);
/// "a, b, c".
std::string joined(const std::vector<std::string>& words);
/// For messages: control characters replaced, long text cut.
std::string shown(std::string_view text);

/// The candidate that is closest to what was written, by edit distance, capitals being small letters; empty if none is.
std::string nearest(std::string_view written, const std::vector<std::string>& candidates);
/// Insertions, deletions, replacements, and swaps of neighbours (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace shoal::config
