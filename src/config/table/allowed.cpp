// SPDX-License-Identifier: Apache-2.0
// The constructors of Allowed, and its description for messages.
#include <algorithm>
#include <cmath>
#include <utility>

#include "shoal/base/error.hpp"
#include "shoal/config/value.hpp"
#include "shoal/config/wall_time.hpp"

namespace shoal::config {

namespace {

std::string number(double value) { return print(Value(value), {}); }

/// " of at least 1", " above 0 and below 1", " from 0 to 1"; empty if there are no bounds.
std::string bounds(const Allowed& allowed) {
  const bool low = std::isfinite(allowed.low), high = std::isfinite(allowed.high);
  if (low && high && !allowed.low_open && !allowed.high_open)
    return " from " + number(allowed.low) + " to " + number(allowed.high);
  std::string result;
  if (low) result += (allowed.low_open ? " above " : " of at least ") + number(allowed.low);
  if (high)
    result += std::string(low ? " and" : "") + (allowed.high_open ? " below " : " of at most ") + number(allowed.high);
  return result;
}

std::string describe_text(const Allowed& allowed) {
  if (!allowed.choices.empty()) return joined(allowed.choices) + (allowed.count ? ", or a whole number of at least 1" : "");
  return allowed.text.empty() ? (allowed.empty ? "text" : "text that is not empty") : allowed.text;
}

}  // namespace

Allowed Allowed::or_word(std::string_view stands_for, double value) const {
  Allowed result = *this;
  result.word = stands_for;
  result.sentinel = value;
  return result;
}

Allowed Allowed::later(std::vector<std::string> values) const {
  Allowed result = *this;
  result.not_built = std::move(values);
  return result;
}

Allowed Allowed::or_count() const {
  Allowed result = *this;
  result.count = true;
  return result;
}

Allowed Allowed::or_wall_time() const {
  Allowed result = *this;
  result.wall_time = true;
  return result;
}

Allowed Allowed::as(std::string_view description) const {
  Allowed result = *this;
  result.text = description;
  return result;
}

std::string joined(const std::vector<std::string>& words) {
  std::string result;
  for (const std::string& word : words) result += (result.empty() ? "" : ", ") + word;
  return result;
}

Allowed any() { return {}; }

Allowed at_least(double low) {
  Allowed allowed;
  allowed.low = low;
  return allowed;
}

Allowed above(double low) {
  Allowed allowed = at_least(low);
  allowed.low_open = true;
  return allowed;
}

Allowed between(double low, double high) {
  Allowed allowed = at_least(low);
  allowed.high = high;
  return allowed;
}

Allowed open(double low, double high) {
  Allowed allowed = between(low, high);
  allowed.low_open = allowed.high_open = true;
  return allowed;
}

Allowed from_below(double low, double high) {
  Allowed allowed = between(low, high);
  allowed.high_open = true;
  return allowed;
}

Allowed one_of(std::vector<std::string> choices) {
  Allowed allowed;
  allowed.choices = std::move(choices);
  return allowed;
}

Allowed not_empty() {
  Allowed allowed;
  allowed.empty = false;
  return allowed;
}

std::string describe(const Allowed& allowed, const Value& type) {
  if (std::holds_alternative<bool>(type)) return "true, false";
  if (std::holds_alternative<std::string>(type)) return describe_text(allowed);
  if (!allowed.choices.empty()) return joined(allowed.choices);
  const std::string kind = std::holds_alternative<double>(type) ? "numbers" : "whole numbers";
  const bool only_by_type = std::holds_alternative<std::uint64_t>(type) && bounds(allowed).empty();
  return (allowed.word.empty() ? "" : allowed.word + ", or ") + kind +
         (only_by_type ? " from 0 to 2^64 - 1" : bounds(allowed)) +
         (allowed.wall_time ? text(", or ", wall_time_forms) : std::string());
}

}  // namespace shoal::config
