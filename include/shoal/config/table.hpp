// SPDX-License-Identifier: Apache-2.0
// THE table of options: one row per option, from which come the command line, the deck, the help, the echo in the log and
// the attributes of the trace. A new option is a member in its module's struct and a row in src/config/rows_*.cpp.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "shoal/config/options.hpp"
#include "shoal/config/value.hpp"

namespace shoal::config {

/// Reads and writes one member of Options.
struct Binding {
  std::function<Value(const Options&)> get;
  std::function<void(Options&, const Value&)> set;
};

/// An option that only some values of another one use: set to anything but its default elsewhere, it is refused rather than
/// ignored.
struct UsedBy {
  std::string option;               ///< empty: always used
  std::vector<std::string> values;  ///< of that option
};

/// What the help says about an option.
struct Help {
  std::string what;       ///< what it does; begins with the values of other options that it needs: "stage 3: ..."
  std::string when = {};  ///< when to change it, as a sentence; empty if that is obvious
};

struct Row {
  std::string name;  ///< section.key
  Binding member;
  std::string unit;
  Allowed allowed;
  Help help;
  UsedBy used_by = {};
  bool built = true;  ///< false: declared, but nothing uses it yet
};

/// The alternative of Value that holds a T; an enum is held as its name.
template <typename T>
using Stored = std::conditional_t<
    HasNames<T>, std::string,
    std::conditional_t<std::is_same_v<T, bool> || std::is_floating_point_v<T> || std::is_same_v<T, std::string>, T,
                       std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>>;

template <typename T>
Value stored(const T& member) {
  if constexpr (HasNames<T>) {
    return std::string(name_of(member));
  } else {
    return Stored<T>(member);
  }
}

template <typename T>
T restored(const Value& value) {
  if constexpr (HasNames<T>) {
    return value_named<T>(std::get<std::string>(value)).value();
  } else {
    return static_cast<T>(std::get<Stored<T>>(value));
  }
}

/// The member of a module's struct: in(&Options::zero, &ZeroOptions::stage).
template <typename Group, typename T>
Binding in(Group Options::*group, T Group::*member) {
  return {[=](const Options& options) { return stored(options.*group.*member); },
          [=](Options& options, const Value& value) { options.*group.*member = restored<T>(value); }};
}

/// A member of Options itself.
template <typename T>
Binding in(T Options::*member) {
  return {[=](const Options& options) { return stored(options.*member); },
          [=](Options& options, const Value& value) { options.*member = restored<T>(value); }};
}

/// All rows, section by section, in the order of help and decks.
const std::vector<Row>& table();
/// nullptr if there is no such option.
const Row* find(std::string_view name);
std::vector<std::string> sections();
/// "model" of "model.n_embd".
std::string section_of(std::string_view name);
/// "n_embd" of "model.n_embd".
std::string key_of(std::string_view name);

/// The row's value as text, and that of its default.
std::string value_text(const Row& row, const Options& options);
std::string default_text(const Row& row);
/// Whether the feature behind this value is there.
bool is_built(const Row& row, const Options& options);

/// "unknown option; did you mean zero.stage?", or, where nothing is close, what there is.
std::string unknown_option(const std::string& name);

}  // namespace shoal::config
