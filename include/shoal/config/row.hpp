// SPDX-License-Identifier: Apache-2.0
// A row of the table of options.
#pragma once

#include <functional>
#include <string>
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

/// The values of another option with which this one has an effect. With other values it is an error to set it to anything
/// but its default.
struct UsedBy {
  std::string option;               ///< empty: no other option decides
  std::vector<std::string> values;  ///< of that option
};

/// The description of an option in the help.
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
  std::vector<UsedBy> used_by_any = {};  ///< in place of used_by: several options, each of which gives it an effect
  bool built = true;                     ///< false: declared, but its feature does not exist yet
};

/// The alternative of Value that stores a T. An enum is stored as its name.
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

/// Binds a member of a group of options: in(&Options::zero, &ZeroOptions::stage).
template <typename Group, typename T>
Binding in(Group Options::*group, T Group::*member) {
  return {[=](const Options& options) { return stored(options.*group.*member); },
          [=](Options& options, const Value& value) { options.*group.*member = restored<T>(value); }};
}

/// Binds a member of Options itself.
template <typename T>
Binding in(T Options::*member) {
  return {[=](const Options& options) { return stored(options.*member); },
          [=](Options& options, const Value& value) { options.*member = restored<T>(value); }};
}

}  // namespace shoal::config
