// SPDX-License-Identifier: Apache-2.0
// Values of options: which are allowed, how they are read from text, and how they are printed.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace shoal::config {

/// The value of an option. The alternative of its default is the option's type.
using Value = std::variant<bool, std::int64_t, std::uint64_t, double, std::string>;

/// The values that an option may have.
struct Allowed {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false;  ///< the bound itself is not allowed
  std::vector<std::string> choices;          ///< empty: any value within the bounds
  std::vector<std::string> not_built;        ///< choices whose feature is not built yet
  std::string word;                          ///< "auto": a word for the value `sentinel`
  double sentinel = 0;                       ///< the value that the word means; allowed even if it is out of bounds
  std::string text;                          ///< what a text is: "a directory"
  bool count = false;                        ///< a text may also be a whole number of at least 1
  bool wall_time = false;                    ///< a number of seconds may also be written as config/wall_time.hpp reads it
  bool empty = true;                         ///< a text may be empty

  /// The same, and `text` means `value`.
  Allowed or_word(std::string_view text, double value = 0) const;
  /// The same; the features of these choices are not built yet.
  Allowed later(std::vector<std::string> values) const;
  Allowed or_count() const;
  Allowed or_wall_time() const;
  /// The same, with a description of the text.
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

/// For messages: "whole numbers of at least 1", "auto, or numbers above 0", "adamw, sgd".
std::string describe(const Allowed& allowed, const Value& type);

/// The value that was read, or what is wrong with the text ("not a whole number; write 1000").
struct Reading {
  std::optional<Value> value;
  std::string problem;
};
/// type: a value of the wanted alternative. name: for messages such as "no such stage".
Reading read(std::string_view text, const Allowed& allowed, const Value& type, std::string_view name);

/// "model.n_embd = 64x: not a whole number; allowed: whole numbers of at least 1".
std::string refusal(std::string_view name, std::string_view text, const std::string& problem, const Allowed& allowed,
                    const Value& type);

/// Prints a value so that read() gives the same value again; numbers in the shortest such form.
std::string print(const Value& value, const Allowed& allowed);

/// The text as a deck needs it: in quotes with escapes if it would be read differently without.
std::string quoted_if_needed(const std::string& text);
/// "a, b, c".
std::string joined(const std::vector<std::string>& words);
/// The text without any of `spaces` at its ends.
std::string_view trimmed(std::string_view text, std::string_view spaces = " \t");
/// The text for a message: control characters are replaced, long text is cut.
std::string shown(std::string_view text);

/// The candidate most similar to what was written, ignoring case; empty if none is similar.
std::string nearest(std::string_view written, const std::vector<std::string>& candidates);
/// The text in lower case. Only ASCII letters change.
std::string lower(std::string_view text);
/// Number of insertions, deletions, replacements and swaps of adjacent characters (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace shoal::config
